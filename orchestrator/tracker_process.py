"""The tracker's own process: it drains a sweep's outbox off the critical path, and outlives a driver that is killed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading

from orchestrator.settings import Settings

POLL_SECONDS = 0.5
GRACE_SECONDS = 60.0
NICENESS = 5


class TrackerProcess:
    """Starts the process; `finish` lets it deliver what is left."""

    def __init__(self, settings: Settings, sweep: str) -> None:
        log = settings.home / "logs" / f"tracker-{sweep}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "orchestrator.tracker_process", sweep],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={
                    **os.environ,
                    "SLOTSWEEP_HOME": str(settings.home),
                    "SLOTSWEEP_DATABASE_URL": settings.database_url,
                    "SLOTSWEEP_TRACKING_URI": settings.tracking_uri,
                },
                start_new_session=True,  # Ctrl-C is for the driver; the tracker finishes its deliveries
            )

    def finish(self) -> None:
        """Wait until everything is delivered, within reason; what is left then is delivered by a later command.

        SLOTSWEEP_TRACKING_GRACE is what is within reason, in seconds.
        """
        seconds = float(os.environ.get("SLOTSWEEP_TRACKING_GRACE", GRACE_SECONDS))
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()


def main(sweep: str) -> None:
    """Deliver until standard input ends (the driver is done, or dead) and nothing is left to deliver."""
    os.nice(NICENESS)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    from orchestrator.store.store import Store
    from orchestrator.tracker.drain import drain
    from orchestrator.tracker.opening import open_tracker
    from orchestrator.tracking import StoreOutbox

    settings = Settings.read()
    stop, driver_gone = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=_watch_driver, args=(driver_gone,), daemon=True).start()
    source = StoreOutbox(Store.open(settings.database_url), sweep)
    tracker = open_tracker(settings.tracking_uri, str(settings.artifacts))
    while not stop.is_set():
        last_round = driver_gone.is_set()
        drain(source, tracker, stop)
        if last_round:
            return
        driver_gone.wait(POLL_SECONDS)


def _watch_driver(gone: threading.Event) -> None:
    """The driver never writes: its end of the pipe closes when it finishes, and when it dies."""
    sys.stdin.read()
    gone.set()


if __name__ == "__main__":
    main(sys.argv[1])
