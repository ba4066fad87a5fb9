from __future__ import annotations

import mmap
import time

from workers import meter as meters
from workers.meter import ResourceMeter


def mebibytes(count: int) -> None:
    """Take memory from the system, not from what this process has freed and kept, and write every page of it."""
    with mmap.mmap(-1, count << 20) as block:
        for page in range(0, len(block), mmap.PAGESIZE):
            block[page] = 1


def test_the_meter_sees_wall_and_cpu_time_apart() -> None:
    with ResourceMeter() as sleeping:
        time.sleep(0.1)
    with ResourceMeter() as working:
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
    assert sleeping.wall_seconds >= 0.1
    assert sleeping.cpu_seconds < 0.05
    assert working.cpu_seconds >= 0.1


def test_the_peak_is_the_blocks_own_where_the_system_allows() -> None:
    with ResourceMeter() as large:
        mebibytes(64)
    with ResourceMeter() as small:
        pass
    assert large.peak_memory_bytes > 64 << 20
    if small.peak_memory_reason is None:
        assert large.peak_memory_bytes - small.peak_memory_bytes > 48 << 20
    else:
        assert small.peak_memory_bytes >= large.peak_memory_bytes


def test_a_peak_that_cannot_be_reset_says_so(monkeypatch) -> None:
    monkeypatch.setattr(meters, "_reset_peak", lambda: "since the process started: no reset here")
    mebibytes(32)
    with ResourceMeter() as meter:
        pass
    assert meter.peak_memory_reason == "since the process started: no reset here"
    assert meter.peak_memory_bytes > 32 << 20


def test_a_meter_costs_less_than_a_tenth_of_a_millisecond(pace: float) -> None:
    costs = []
    for _ in range(50):
        start = time.perf_counter()
        with ResourceMeter():
            pass
        costs.append(time.perf_counter() - start)
    assert min(costs) < 1e-4 * pace
