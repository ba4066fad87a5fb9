"""The store's outbox as the tracker's drain reads it: what is news of a sweep, as runs."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from orchestrator.results import numbered_rows, result_rows
from orchestrator.store.records import Notice, SweepRow
from orchestrator.store.states import ENDED, SweepState
from orchestrator.store.store import Store
from orchestrator.tracker.drain import Delivery
from orchestrator.tracker.records import ParentRun, TrialRun
from orchestrator.tracking import parent_run, trial_run
from tasks.kind import KINDS
from tasks.leading import leading_trials

PROGRESS_SECONDS = 30.0
"""How often the description of a running sweep is brought up to date."""


@dataclass
class Told:
    """What a process has told of sweeps, by id, kept from one outbox to the next.

    best      positions of the best trials
    progress  when it told last how far a running sweep is, on the monotonic clock
    """

    best: dict[str, set[int]] = field(default_factory=dict)
    progress: dict[str, float] = field(default_factory=dict)


class StoreOutbox:
    """The outbox of one sweep, as the drain reads it."""

    def __init__(self, store: Store, sweep: str, holder: str, lease_seconds: float, told: Told | None = None) -> None:
        self._store = store
        self._sweep = sweep
        self._holder = holder
        self._lease_seconds = lease_seconds
        self._told = told or Told()
        self._leading: set[int] | None = None

    def next(self, limit: int) -> Sequence[Delivery]:
        """The oldest undelivered notices as runs. Of several notices of the sweep itself the last one speaks."""
        notices = self._store.notices(self._sweep, limit)
        if not notices or not self._store.lease_tracking(self._sweep, self._holder, self._lease_seconds):
            return []
        sweep = self._store.sweep(self._sweep)
        best = self._best(sweep)
        runs: dict[int, ParentRun | TrialRun] = {}
        by_trial = {notice.trial: notice.id for notice in notices if notice.trial is not None}
        present = [notice.trial for notice in notices if notice.trial is not None and notice.position is not None]
        replaced = [trial for trial in by_trial if trial not in set(present)]
        for trial, row in numbered_rows(self._store, sweep, self._store.trial_rows(sweep.id, present), system=True):
            runs[by_trial[trial]] = trial_run(sweep, row, best)
        if replaced:
            stored = self._store.replaced_rows(sweep.id, replaced)
            for trial, row in numbered_rows(self._store, sweep, stored, system=True):
                runs[by_trial[trial]] = trial_run(sweep, row, replaced=True)
        if runs and sweep.state == SweepState.RUNNING:
            self._tell_progress()
        news = [notice for notice in notices if notice.trial is None]
        if news:
            runs[news[-1].id] = parent_run(sweep)
            if self._leading is not None and self._told.best.get(self._sweep) != self._leading:
                self._store.tell_again(
                    self._sweep, best
                )  # which are best is known only now; those that were may not be
                self._told.best[self._sweep] = self._leading
        # Earlier notices of the sweep, or of a trial, are told by the last.
        self._store.delivered([notice.id for notice in notices if notice.id not in runs])
        return [Delivery(notice.id, runs[notice.id]) for notice in _parents_first(notices) if notice.id in runs]

    def _tell_progress(self) -> None:
        """Have the tracker told of the running sweep itself, now and then."""
        now = time.monotonic()
        if now - self._told.progress.setdefault(self._sweep, now) >= PROGRESS_SECONDS:
            self._told.progress[self._sweep] = now
            self._store.remind(self._sweep)

    def _best(self, sweep: SweepRow) -> Collection[int]:
        """Positions of the sweep's best trials; none before it has ended. Studies tell theirs by themselves."""
        if sweep.state not in ENDED or KINDS.implementation(sweep.kind).proposes:
            return ()
        if self._leading is None:
            self._leading = leading_trials(list(result_rows(self._store, sweep)))
        return self._leading

    def done(self, ids: Sequence[int]) -> None:
        """Note that these notices are delivered."""
        self._store.delivered(ids)

    def refused(self, id: int, reason: str) -> None:
        """Note that this notice was refused: this process does not offer it again."""
        self._store.refuse(id, reason)


def _parents_first(notices: Sequence[Notice]) -> list[Notice]:
    return sorted(notices, key=lambda notice: (notice.trial is not None, notice.id))
