"""One sweep on its way through the scheduler: what is still to hand out, what runs, how far it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from orchestrator.batching import Batch, batches
from orchestrator.spec.spec import Policy
from orchestrator.store.records import Accepted, Counts, Lease, Pending, SweepRow
from orchestrator.store.store import Store
from workers.batch import BatchTask


@dataclass(frozen=True)
class Progress:
    """How far a sweep is. `computed` counts trials finished by this run, in `seconds` since its workers were ready."""

    sweep: str
    name: str
    total: int
    done: int
    failed: int
    computed: int = 0
    seconds: float = 0.0


class Job:
    """Hands out a sweep's batches in plan order; those given back are handed out again after the others."""

    def __init__(self, store: Store, sweep: SweepRow, policy: Policy) -> None:
        self.sweep = sweep
        self.policy = policy
        self.running: dict[int, Batch] = {}
        self.closed = False
        self._failures = 0
        self.progress = Progress(
            sweep.id, sweep.name, sweep.counts.total, sweep.counts.done, sweep.counts.failed + sweep.counts.cancelled
        )
        self._store = store
        self._cells = store.cells(sweep.id)
        self._urgent: deque[Batch] = deque()
        self._waiting = self._rest()

    @property
    def rank(self) -> tuple[int, float, str]:
        """Sorts jobs: highest priority first, then the oldest."""
        return -self.policy.priority, self.sweep.created, self.sweep.id

    @property
    def spent(self) -> bool:
        """Whether so many trials failed, since this job began, that the sweep is to stop."""
        return self.policy.stop_after is not None and self._failures >= self.policy.stop_after

    def next_batch(self) -> Batch | None:
        """The next batch to hand out; None when there is none right now."""
        if self.closed or self.spent:
            return None
        return self._urgent.popleft() if self._urgent else next(self._waiting, None)

    def hasten(self, batch: Batch, trials: set[int]) -> None:
        """Hand out those of `batch`'s trials that are in `trials` before everything else."""
        self._urgent.append(Batch(batch.cells, tuple(trial for trial in batch.trials if trial.trial in trials)))

    def start_over(self) -> None:
        """Look through the sweep again for trials that wait: some were given back, or added."""
        self._waiting = self._rest()

    def recount(self, counts: Counts) -> None:
        """Take the sweep's number of trials from the store: it may have been extended."""
        self.progress = replace(self.progress, total=counts.total)

    def task(self, batch: Batch, lease: Lease) -> BatchTask:
        """What a worker is handed for those trials of `batch` that were leased."""
        leased = set(lease.trials)
        trials = [trial for trial in batch.trials if trial.trial in leased]
        cells = list(dict.fromkeys(trial.cell for trial in trials))
        index = {cell: i for i, cell in enumerate(cells)}
        first = self._cells[trials[0].cell]
        return BatchTask(
            attempt=lease.attempt,
            kind=self.sweep.kind,
            workload=first.workload,
            mechanisms=tuple(self._cells[cell].mechanism for cell in cells),
            trials=tuple((trial.trial, trial.seed, index[trial.cell]) for trial in trials),
            episodes=first.episodes,
            dtype=first.dtype,
            timeout=self.policy.timeout,
        )

    def count(self, accepted: Accepted, seconds: float) -> None:
        """Add what an attempt brought to the progress."""
        self._failures += accepted.failed
        self.progress = replace(
            self.progress,
            done=self.progress.done + accepted.done,
            failed=self.progress.failed + accepted.failed,
            computed=self.progress.computed + accepted.done + accepted.failed,
            seconds=seconds,
        )

    def _rest(self) -> Iterator[Batch]:
        return batches(self._page, self._cells)

    def _page(self, after: int, limit: int) -> list[Pending]:
        page = self._store.pending(self.sweep.id, after, limit)
        if any(trial.cell not in self._cells for trial in page):  # the sweep was extended
            self._cells.update(self._store.cells(self.sweep.id))
        return page
