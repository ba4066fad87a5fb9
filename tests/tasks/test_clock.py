"""The clock of cost measurements counts work, and not the waiting for a processor."""

from __future__ import annotations

import os
import threading
import time

import pytest

from tasks.clock import WAITED, Clock


def work() -> None:
    sum(range(300_000))


def test_it_counts_what_passes() -> None:
    with Clock() as clock:
        clock.start()
        time.sleep(0.05)
        first = clock.stop()
        clock.start()
        second = clock.stop()
    assert 0.05 <= first < 2.0
    assert second < 0.03
    assert clock.elapsed - clock.waited == pytest.approx(first + second)


@pytest.mark.skipif(not os.path.exists(WAITED), reason="the system does not count waiting")
def test_waiting_for_a_processor_is_not_counted() -> None:
    """Another process on this thread's only processor doubles what passes, and not what is counted."""
    only = next(iter(os.sched_getaffinity(0)))

    def measure(found: list[float]) -> None:
        os.sched_setaffinity(0, {only})
        with Clock() as clock:
            for _ in range(30):
                clock.start()
                work()
                clock.stop()
        found += [clock.elapsed, clock.waited]

    def in_thread() -> tuple[float, float]:
        found: list[float] = []
        thread = threading.Thread(target=measure, args=(found,))
        thread.start()
        thread.join()
        return found[0], found[1]

    rival = os.fork()
    if rival == 0:
        os.sched_setaffinity(0, {only})
        while True:
            pass
    try:
        time.sleep(0.05)
        elapsed, waited = in_thread()
    finally:
        os.kill(rival, 9)
        os.waitpid(rival, 0)
    assert waited > 0.25 * elapsed
    began = time.thread_time()
    for _ in range(30):
        work()
    assert elapsed - waited < 2 * (time.thread_time() - began)
