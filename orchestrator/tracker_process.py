"""The tracker's own process: it drains the outbox off the critical path, and outlives a driver that is killed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from orchestrator.children import end_child, leave_child, start_child
from orchestrator.mirrors import Mirrors
from orchestrator.patience import patiently
from orchestrator.settings import Settings

POLL_SECONDS = 0.1
GRACE_SECONDS = 30.0
GRACE_VARIABLE = "SLOTSWEEP_TRACKING_GRACE"
QUIET_SECONDS = 4.0
LAST_SECONDS = 10.0
"""How long a write may go on once there is no more time."""

LEASE_SECONDS = 120.0
NICENESS = 1


class TrackerProcess:
    """Starts the process; `finish` lets it deliver what is left.

    grace: as `grace_seconds`; None: as long as the environment says
    """

    def __init__(self, settings: Settings, grace: float | None = None) -> None:
        self._settings = settings
        self._grace = grace
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        settings = self._settings
        grace = {} if self._grace is None else {GRACE_VARIABLE: str(self._grace)}
        return start_child(
            ["orchestrator.tracker_process"],
            settings.home / "logs" / "tracker.log",
            {**os.environ, **settings.as_environment(), **grace},
        )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def end(self, seconds: float) -> None:
        """Let it deliver what it can within `seconds`; what is left then is delivered by the next one."""
        end_child(self._process, seconds)

    def leave(self) -> None:
        """Let it deliver what is left by itself: nobody waits for it."""
        leave_child(self._process)

    def finish(self, on_wait: Callable[[], None] = lambda: None) -> None:
        """Wait until everything is delivered, within reason; what is left then is delivered by a later command.

        `on_wait` is called once if that takes a while.

        A process that was killed meanwhile is started once more, for what it left.
        """
        if self._process.poll() is not None:
            self._process = self._start()
        self.leave()
        try:
            self._process.wait(QUIET_SECONDS)
        except subprocess.TimeoutExpired:
            on_wait()
        try:
            self._process.wait(grace_seconds() + 5.0)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            try:
                self._process.wait(LAST_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()  # which loses nothing: what it has not told of is still in the outbox
                self._process.wait()


def grace_seconds() -> float:
    """How long a tracking store that is away is waited for when everything else is done: SLOTSWEEP_TRACKING_GRACE."""
    return float(os.environ.get(GRACE_VARIABLE, GRACE_SECONDS))


def main() -> None:
    """Deliver until the driver is done, or dead, and nothing is left that no other process delivers."""
    os.nice(NICENESS)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    from orchestrator.outbox import StoreOutbox, Told
    from orchestrator.store.store import Store
    from orchestrator.tracker.drain import drain
    from orchestrator.tracker.opening import open_tracker

    settings = Settings.read()
    stop, driver_gone = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=_watch_driver, args=(driver_gone, stop), daemon=True).start()
    store = Store.open(settings.database_url)
    tracker = open_tracker(settings.tracking_uri, str(settings.artifacts))
    holder = patiently(store.register_orchestrator)
    patiently(store.forget_refusals)
    mirrors = Mirrors(store, settings)
    mirrors.catch_up()
    told = Told()

    def deliver(sweep: str) -> bool:
        """Deliver what is there of `sweep`; False if another process is at it."""
        if not store.lease_tracking(sweep, holder, LEASE_SECONDS):
            return False
        drain(StoreOutbox(store, sweep, holder, LEASE_SECONDS, told), tracker, stop)
        mirrors.update(sweep)
        store.stop_tracking(sweep, holder)
        return True

    while not stop.is_set():
        last_round = driver_gone.is_set()
        delivered = [patiently(deliver, sweep) for sweep in patiently(store.sweeps_to_tell_of)]
        if last_round and all(delivered):
            return
        (stop if last_round else driver_gone).wait(POLL_SECONDS)


def _watch_driver(gone: threading.Event, stop: threading.Event) -> None:
    """The driver never writes: its end of the pipe closes when it finishes, and when it dies.

    A tracking store that is away is not waited for long after that: what is undelivered stays in the outbox.
    """
    sys.stdin.read()
    gone.set()
    time.sleep(grace_seconds())
    stop.set()


if __name__ == "__main__":
    main()
