"""The conductor: the process that runs the service's sweeps, one group of alike ones, and then ends.

    python -P -m orchestrator.service.conductor GROUP

Nothing but the store tells it what to run, and whatever happens to it, the store tells the next one. Its parent, the
service, holds a pipe to its stdin: a line `give way` lets it finish what runs and end; when the pipe closes, as it does
when the service dies, it hands back what runs at once and is gone within HAND_BACK_SECONDS.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress

from sqlalchemy.exc import SQLAlchemyError

from orchestrator.alike import Group, group_from, group_of
from orchestrator.errors import ExecutorError, PreparationError, RequestError, StoreError
from orchestrator.executors.ray_preparing import Preparer
from orchestrator.exit_codes import ALL_DONE, SYSTEM_FAILED
from orchestrator.logs import ServiceLog
from orchestrator.owner import Owner
from orchestrator.patience import patiently
from orchestrator.pinned import load_pinned_plugins
from orchestrator.runner import SweepQueue, conclude, draw_report, has_nothing_to_compute, preparation_of, run_queue
from orchestrator.scheduler import StopRequest
from orchestrator.secrecy import without_secrets
from orchestrator.service.outlooks import Outlooks
from orchestrator.service.sweep_queue import TO_RUN, UNREADABLE, ServiceQueue, next_sweeps
from orchestrator.settings import Settings
from orchestrator.store.records import SweepRow
from orchestrator.store.store import Store

DUTY = "conduct"
"""The duty of the one process that runs sweeps: never do two measure times beside each other."""

DUTY_SECONDS = 15.0
RENEW_SECONDS = 3.0
BEAT_SECONDS = 1.0
HAND_BACK_SECONDS = 8.0
GIVE_WAY = b"give way\n"


class Conductor:
    """Runs the sweeps of one group while there are any, and keeps its workers for a while when there are none."""

    def __init__(self, settings: Settings, store: Store, group: Group, stop: StopRequest, log: ServiceLog) -> None:
        self._settings = settings
        self._store = store
        self._group = group
        self._stop = stop
        self._log = log
        self._outlooks = Outlooks(store)
        self._over = threading.Event()

    def run(self) -> int:
        """Run what there is; the exit code."""
        self._owner = Owner(self._store)
        holder = self._owner.id
        if not self._wait_for_duty(holder):
            return ALL_DONE
        beat = threading.Thread(target=self._beat, args=(holder,), name="beat", daemon=True)
        beat.start()
        try:
            self._draw_missing()
            while not self._stop.drain.is_set() and self._run_some():
                pass
            self._draw_missing()
        except (RequestError, ExecutorError) as error:
            why = without_secrets(str(error))
            self._log.error("sweeps cannot be run", message=why)
            for one in self._store.to_run(TO_RUN):
                if group_of(one) == self._group:
                    self._outlooks.end(one.id, f"no worker can be had: {why}")
            return SYSTEM_FAILED
        finally:
            self._over.set()
            beat.join()
            self._owner.end()
            with suppress(SQLAlchemyError, StoreError):
                self._outlooks.write()
                self._store.leave_duty(DUTY, holder)
        return ALL_DONE

    def _wait_for_duty(self, holder: str) -> bool:
        """Become the one that runs sweeps, as soon as the one before is gone; False if that is not to be."""
        while not self._stop.drain.is_set():
            if patiently(self._store.take_duty, DUTY, holder, DUTY_SECONDS):
                return True
            self._stop.drain.wait(0.25)
        return False

    def _beat(self, holder: str) -> None:
        """Beside the work: keep the duty, and write outlooks. Without the duty, which another may have, leave."""
        kept = renewed = time.monotonic()
        while not self._over.wait(BEAT_SECONDS):
            now = time.monotonic()
            with suppress(SQLAlchemyError, StoreError):
                self._outlooks.write()
                if now - renewed >= RENEW_SECONDS:
                    renewed = now
                    self._owner.keep()
                    if self._store.take_duty(DUTY, holder, DUTY_SECONDS):
                        kept = now
            if now - kept > DUTY_SECONDS:
                self._log.error("another process may run sweeps now: leaving")
                leave(self._stop)

    def _run_some(self) -> bool:
        """Run sweeps until there are none, or one cannot be prepared; whether to look again."""
        found = patiently(next_sweeps, self._store, self._group)
        rows = [self._store.sweep(one.id) for one in found if self._owner.takes(one.id)]
        if not rows:
            return False
        queue = ServiceQueue(self._store, self._settings, rows[0], self._outlooks, self._log, self._stop, self._owner)
        try:
            if not self._conclude_whole(rows, queue):
                run_queue(self._settings, self._store, queue, "ray", self._outlooks.note, self._stop, serving=True)
        except (*UNREADABLE, PreparationError):
            if not self._find_faults(rows, queue):
                raise
            return True
        finally:
            queue.close()
        return not self._stop.drain.is_set() and bool(next_sweeps(self._store, self._group))

    def _conclude_whole(self, rows: Sequence[SweepRow], queue: ServiceQueue) -> bool:
        """End `rows` if none has anything left to compute: that needs no worker."""
        for row in rows:
            try:
                load_pinned_plugins(self._store, row, self._settings.home / "code")
                if not has_nothing_to_compute(self._store, row):
                    return False
            except UNREADABLE as error:
                queue.give_up(row.id, str(error))
                return True
        for row in rows:
            alone = SweepQueue(self._store, self._settings, row, [row.id], self._owner)
            conclude(self._store, row, alone)
            self._outlooks.end(row.id)
        return True

    def _find_faults(self, rows: Sequence[SweepRow], queue: ServiceQueue) -> bool:
        """Prepare each sweep by itself, and pause those that are at fault; whether any is."""
        found = False
        for row in rows:
            try:
                load_pinned_plugins(self._store, row, self._settings.home / "code")
                preparer = Preparer(self._store.code(row), self._settings, self._stop.drain.is_set)
                preparer.prepare(preparation_of(self._store, [row]), lambda: None)
            except (*UNREADABLE, PreparationError) as error:
                found = True
                queue.give_up(row.id, without_secrets(str(error)))
        return found

    def _draw_missing(self) -> None:
        """Draw the reports of the group's ended sweeps whose process died before it could, or which had none."""
        for one in patiently(self._store.undrawn):
            if group_of(one) != self._group or self._stop.leave.is_set():
                continue
            try:
                load_pinned_plugins(self._store, self._store.sweep(one.id), self._settings.home / "code")
                draw_report(self._store, one.id, self._settings)
            except Exception as error:  # whatever a sweep's own code does, the others have their reports
                self._log.warning("report not drawn", sweep=one.id, message=f"{type(error).__name__}: {error}")


def leave(stop: StopRequest) -> None:
    """Hand back what runs, at once."""
    stop.leave.set()
    stop.drain.set()


def main() -> None:
    """Run the sweeps of the group that the command line names."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    stop = StopRequest()
    threading.Thread(target=_obey, args=(stop,), name="obey", daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: leave(stop))
    settings = Settings.read()
    log = ServiceLog(settings)
    with redirect_stdout(sys.stderr):
        store = Store.open(settings.database_url)
        code = Conductor(settings, store, group_from(sys.argv[1]), stop, log).run()
    sys.stderr.flush()
    os._exit(code)  # threads that draw or propose are not waited for: what they do is found undone, and done again


def _obey(stop: StopRequest) -> None:
    """Do what the service says, and end, by force if need be, when it is gone."""
    while line := sys.stdin.buffer.readline():
        if line == GIVE_WAY:
            stop.drain.set()
    leave(stop)
    time.sleep(HAND_BACK_SECONDS)
    os._exit(SYSTEM_FAILED)


if __name__ == "__main__":
    main()
