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

from orchestrator.mirrors import Mirrors
from orchestrator.patience import patiently
from orchestrator.settings import Settings

POLL_SECONDS = 0.1
GRACE_SECONDS = 30.0
QUIET_SECONDS = 4.0
LEASE_SECONDS = 120.0
NICENESS = 1


class TrackerProcess:
    """Starts the process; `finish` lets it deliver what is left."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        settings = self._settings
        log = settings.home / "logs" / "tracker.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as output:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "orchestrator.tracker_process"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={
                    **os.environ,
                    "SLOTSWEEP_HOME": str(settings.home),
                    "SLOTSWEEP_DATABASE_URL": settings.database_url,
                    "SLOTSWEEP_TRACKING_URI": settings.tracking_uri,
                    "SLOTSWEEP_OPTUNA_URL": settings.optuna_url,
                },
                start_new_session=True,  # Ctrl-C is for the driver; the tracker finishes its deliveries
            )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def leave(self) -> None:
        """Let it deliver what is left by itself: nobody waits for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def finish(self, on_wait: Callable[[], None] = lambda: None) -> None:
        """Wait until everything is delivered, within reason; what is left then is delivered by a later command.

        `on_wait` is called once if that takes a while.

        A process that was killed meanwhile is started once more, for what it left.
        """
        if self._process.poll() is not None:
            self._process = self._start()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(QUIET_SECONDS)
        except subprocess.TimeoutExpired:
            on_wait()
        try:
            self._process.wait(grace_seconds() + 5.0)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()


def grace_seconds() -> float:
    """How long a tracking store that is away is waited for when everything else is done: SLOTSWEEP_TRACKING_GRACE."""
    return float(os.environ.get("SLOTSWEEP_TRACKING_GRACE", GRACE_SECONDS))


def main() -> None:
    """Deliver until the driver is done, or dead, and nothing is left that no other process delivers."""
    os.nice(NICENESS)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    from orchestrator.store.store import Store
    from orchestrator.tracker.drain import drain
    from orchestrator.tracker.opening import open_tracker
    from orchestrator.tracking import StoreOutbox

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

    def deliver(sweep: str) -> bool:
        """Deliver what is there of `sweep`; False if another process is at it."""
        if not store.lease_tracking(sweep, holder, LEASE_SECONDS):
            return False
        drain(StoreOutbox(store, sweep, holder, LEASE_SECONDS), tracker, stop)
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
