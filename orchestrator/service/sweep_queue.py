"""The sweeps that a service's conductor takes on: of one group, by priority, and a few of each user's at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from concurrent.futures import Future

from pydantic import ValidationError

from orchestrator.alike import Group, group_of
from orchestrator.errors import RequestError
from orchestrator.job import Job
from orchestrator.logs import ServiceLog
from orchestrator.owner import Owner
from orchestrator.patience import patiently
from orchestrator.runner import Drawn, SweepQueue
from orchestrator.scheduler import StopRequest
from orchestrator.service.outlooks import Outlooks
from orchestrator.settings import Settings
from orchestrator.spec import SpecError
from orchestrator.store.conducting import WaitingSweep
from orchestrator.store.records import SweepRow
from orchestrator.store.states import CANNOT_RUN, SweepState
from orchestrator.store.store import Store

UNREADABLE = (RequestError, SpecError, ValidationError)
"""What reading a stored sweep raises where it, or code that it brings, is at fault."""

TO_RUN = (SweepState.QUEUED, SweepState.RUNNING)
"""Sweeps that are running and that nobody is at are left-overs of a process that died."""

MOST_SWEEPS_EACH = 8
"""Sweeps of a user's that are under way at a time, those that wait for workers aside; urgent ones come on top."""

MOST_AT_ONCE = 16
"""Sweeps that are taken on in one go, so that workers never wait long meanwhile."""

IDLE_SECONDS = 60.0
"""How long workers are kept when there is nothing to run."""


def next_sweeps(store: Store, group: Group, jobs: Collection[Job] = ()) -> list[WaitingSweep]:
    """Sweeps of `group` to take on beside `jobs`, which are under way. Those that other processes are at are not."""
    others = {sweep for sweep, processes in store.attended().items() if processes - {os.getpid()}}
    others |= store.owned(os.getpid())
    taken = {job.sweep.id for job in jobs} | others
    under_way: dict[str | None, list[int]] = {}
    for job in jobs:
        if job.running or job.progress.waiting is None:
            under_way.setdefault(job.sweep.user, []).append(job.policy.priority)
    found: list[WaitingSweep] = []
    for one in store.to_run(TO_RUN):
        if len(found) == MOST_AT_ONCE:
            break
        before = under_way.setdefault(one.user, [])
        crowded = sum(priority >= one.priority for priority in before) >= MOST_SWEEPS_EACH
        if one.id not in taken and not crowded and group_of(one) == group:
            before.append(one.priority)
            found.append(one)
    return found


class ServiceQueue(SweepQueue):
    """Takes sweeps on as `next_sweeps` says. One that cannot be read is paused, with the reason in its outlook."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        first: SweepRow,
        outlooks: Outlooks,
        log: ServiceLog,
        stop: StopRequest,
        owner: Owner,
    ) -> None:
        super().__init__(store, settings, first, None, owner)
        self._outlooks = outlooks
        self._service_log = log
        self._stop = stop
        self._jobs: dict[str, Job] = {}
        self._idle_since: float | None = None

    def rows(self) -> list[SweepRow]:
        found = next_sweeps(self._store, self._group, self._jobs.values())
        return [self._store.sweep(one.id) for one in found if self.takes(one.id)]

    def adopt(self) -> list[Job]:
        """Sweeps to take on now."""
        found: list[Job] = []
        for row in patiently(self.rows):
            try:
                found.append(patiently(self.job, row))
            except UNREADABLE as error:
                patiently(self.give_up, row.id, str(error))
        self._jobs |= {job.sweep.id: job for job in found}
        if found:
            self._idle_since = None
        return found

    def give_up(self, sweep: str, why: str) -> None:
        """Pause a sweep that cannot be run, by its own fault: it is not tried again unless somebody resumes it."""
        told = f"{CANNOT_RUN}{why}"
        self._store.set_sweep_state(sweep, SweepState.PAUSED, why=told)
        self.leave(sweep)
        self._outlooks.end(sweep, told)
        self.log(sweep).warning("sweep paused", why=why)
        self._service_log.warning("sweep cannot be run", sweep=sweep, why=why)

    def ended(self, job: Job) -> None:
        super().ended(job)
        self._jobs.pop(job.sweep.id, None)
        self._outlooks.end(job.sweep.id, job.broken)
        self.drawings[job.sweep.id].add_done_callback(lambda drawing: self._tell_of(job.sweep.id, drawing))

    def _tell_of(self, sweep: str, drawing: Future[Drawn]) -> None:
        error = None if drawing.cancelled() else drawing.exception()
        if error is not None:
            self._service_log.warning("report not drawn", sweep=sweep, message=f"{type(error).__name__}: {error}")

    def expects_more(self) -> bool:
        """For a while: the next sweep may come any moment."""
        self._idle_since = self._idle_since or time.monotonic()
        return time.monotonic() - self._idle_since < IDLE_SECONDS

    def close(self) -> None:
        """Wait for the last drawing, unless everything is to be left at once: then the next process draws it."""
        leaves = self._stop.leave.is_set()
        self._artist.shutdown(wait=not leaves, cancel_futures=leaves)
