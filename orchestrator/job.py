"""One sweep on its way through the scheduler: what is still to hand out, what runs, how far it is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from models.devices.device import DeviceClass
from orchestrator.batching import Batch, batches, batches_of, shuffled, stream_config
from orchestrator.fleet import Demand, Want, cheapest
from orchestrator.growth import Grower, Growth
from orchestrator.outlook import Outlook, Span
from orchestrator.spec.spec import Policy
from orchestrator.store.records import Accepted, CellRow, Counts, Lease, Pending, SweepRow
from orchestrator.store.store import Store
from orchestrator.waiting import WaitingBatches
from tasks.devices import classes_for
from tasks.kind import KINDS
from workers.batch import BatchReport, BatchTask, load_mechanism
from workers.host import WorkerCard

RECKONING_SHARE = 20.0
"""Reckoning how long the rest of a sweep takes is long where cells are many: this many times that passes in between."""


GETTING_READY = "workers get ready"
"""How it begins what a sweep is said to wait for while its workers are prepared."""


@dataclass(frozen=True)
class Progress:
    """How far a sweep is. `computed` counts trials finished by this run, in `seconds` since its workers were ready.

    waiting: why some of its trials have no worker to go to; None if all have
    growth: how far it is with what is added as results come in, in words; None where nothing is
    left: seconds that it will still take, as far as can be told; None before a worker has run a second batch
    """

    sweep: str
    name: str
    total: int
    done: int
    failed: int
    computed: int = 0
    seconds: float = 0.0
    waiting: str | None = None
    left: float | None = None
    growth: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether all trials have ended, and none will be added."""
        return self.done + self.failed == self.total and (self.growth is None or self.left == 0)


class Job:
    """Hands out a sweep's batches; those given back are handed out again after the others.

    exhausted  a worker found nothing to be handed out
    broken     why it cannot go on, by its own fault or its caps; None: it can

    Where batches are long, the longest go first, so that no worker is left alone with one at the end; others follow in
    plan order. Trials that share streams stay together, seed by seed. Where time is measured, the order is random.
    """

    def __init__(
        self,
        store: Store,
        sweep: SweepRow,
        policy: Policy,
        growth: Growth | None = None,
        saved: Path | None = None,
        *,
        thrifty: bool = False,
    ) -> None:
        """saved: a folder for long trainings on their way; thrifty: trials for several classes go to the cheapest"""
        self.sweep = sweep
        self._thrifty = thrifty
        self._saved = None if saved is None else str(saved)
        self.policy = policy
        self._grower = Grower(growth) if growth is not None else None
        self._samples = growth.samples if growth is not None else ()
        self.running: dict[int, Batch] = {}
        self.closed = False
        self.begun = False
        self.exhausted = False
        self.broken: str | None = None
        self.stuck_since: float | None = None
        self.read_since = time.monotonic()
        self._failures = 0
        self._reckon_after = 0.0
        self._used = store.worker_seconds(sweep.id) if policy.caps.limited else {}
        self.progress = Progress(
            sweep.id, sweep.name, sweep.counts.total, sweep.counts.done, sweep.counts.failed + sweep.counts.cancelled
        )
        self._store = store
        self._cells = store.cells(sweep.id)
        self._demands: dict[int, Demand] = {}
        self._outlook = Outlook(store, {}, ())
        self._waiting = WaitingBatches(self._rest, self._demand)

    @property
    def rank(self) -> tuple[int, float, str]:
        """Sorts jobs: highest priority first, then the oldest."""
        return -self.policy.priority, self.sweep.created, self.sweep.id

    @property
    def timed(self) -> bool:
        """Whether the sweep's trials measure time."""
        return KINDS.implementation(self.sweep.kind).measures_time

    @property
    def spent(self) -> bool:
        """Whether so many trials failed, since this job began, that the sweep is to stop."""
        return self.policy.stop_after is not None and self._failures >= self.policy.stop_after

    def charge(self, device: DeviceClass, seconds: float) -> None:
        """A worker of a device class has computed for the sweep, for so long."""
        self._used[device] = self._used.get(device, 0.0) + seconds

    def over_cap(self, running: Mapping[str, float]) -> str | None:
        """Which cap is used up, in words, with the seconds of what is `running` by device class; None: none."""
        if not self.policy.caps.limited:
            return None
        devices = self._used.keys() | running.keys()
        return self.policy.caps.reached({one: self._used.get(one, 0.0) + running.get(one, 0.0) for one in devices})

    @property
    def demands(self) -> AbstractSet[Demand]:
        """What the sweep's cells need: one of each of these."""
        return {self._demand(cell) for cell in self._cells} | {self._demand_of(cell) for cell in self._samples}

    def demands_left(self, *, read: bool) -> AbstractSet[Demand]:
        """What waiting trials need that workers could not be handed; all demands if nobody has `read` any."""
        return self._waiting.set_aside if read else self.demands

    def count_waiting(self, most: int) -> dict[Want, int]:
        """Batches that wait for workers, by what could run them; `most` where there are more."""
        if self.closed or self.spent:
            return {}
        wants = {want for demand in self.demands for want in demand}
        return {want: self._waiting.count(want, most) for want in wants}

    def _demand(self, cell: int) -> Demand:
        """Workers of which one can run the trials of a cell (a row). Times are measured on the machine of their key."""
        if cell not in self._demands:
            self._demands[cell] = self._demand_of(self._cells[cell])
        return self._demands[cell]

    def _demand_of(self, cell: CellRow) -> Demand:
        model = self.policy.accelerator
        classes: AbstractSet[DeviceClass] = (
            classes_for(
                "any", self.sweep.kind, load_mechanism(cell.mechanism), cell.dtype, stream_config(cell.workload)
            )
            if cell.device == "any"
            else {cell.device}
        )
        demand = frozenset(Want(device, None if device == "cpu" else model, cell.machine) for device in classes)
        return cheapest(demand) if self._thrifty else demand

    def next_batch(self, worker: WorkerCard) -> Batch | None:
        """The next batch to hand to `worker`; None when there is none for it right now."""
        if self.closed or self.spent:
            self.exhausted = True
            return None
        batch = self._waiting.next(Want.of(worker))
        self.exhausted = batch is None and not self._waiting.set_aside
        return batch

    @property
    def growing(self) -> bool:
        """Whether trials may still be added that follow from results."""
        return self._grower is not None and not (self.spent or self._grower.over)

    @property
    def is_deciding(self) -> bool:
        """Whether it is being decided what to add."""
        return self._grower is not None and self._grower.busy

    def wait_for_growth(self, seconds: float) -> None:
        """Wait until something was decided, at most so long."""
        if self._grower is not None:
            self._grower.wait(seconds)

    def grow(self) -> bool:
        """Take up what was added to the sweep; whether its progress is another one now."""
        if self._grower is None or self.closed or self.spent:
            return False
        before, grown = self.progress, self._grower.take()
        for one in grown:
            self._cells.update(one.cells)
            self._waiting.add(batches_of(one.trials, self._cells))
        if grown:
            total = self.progress.total + sum(len(one.trials) for one in grown)
            left = self._left(self.progress.seconds, total - self.progress.done - self.progress.failed)
            self.progress = replace(self.progress, total=total, growth=self._grower.words, left=left)
        return self.progress != before

    def close(self) -> None:
        """Nobody works on the sweep here any more."""
        if self._grower is not None:
            self._grower.close()

    def hasten(self, batch: Batch, trials: AbstractSet[int]) -> None:
        """Hand out those of `batch`'s trials that are in `trials` before everything else."""
        self._waiting.hasten(Batch(batch.cells, tuple(trial for trial in batch.trials if trial.trial in trials)))

    def start_over(self) -> None:
        """Look through the sweep again for trials that wait: some were given back, or added."""
        self._waiting.start_over()
        self.exhausted = False
        self.read_since = time.monotonic()

    def wait_for(self, why: str | None) -> bool:
        """Note why trials have no worker to go to (None: all have); whether that is news."""
        news = why != self.progress.waiting
        self.progress = replace(self.progress, waiting=why)
        return news

    def recount(self, counts: Counts) -> None:
        """Take the sweep's number of trials from the store: it may have been extended."""
        self.progress = replace(self.progress, total=counts.total)

    def task(self, batch: Batch, lease: Lease, device: DeviceClass) -> BatchTask:
        """What a worker on `device` is handed for those trials of `batch` that were leased."""
        self.begun = True
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
            device=device,
            saved=None if self._saved is None else f"{self._saved}/{self.sweep.id}-{device}",
        )

    def count(self, accepted: Accepted, seconds: float) -> None:
        """Add what an attempt brought to the progress."""
        self._failures += accepted.failed
        ended = accepted.done + accepted.failed
        self.progress = replace(
            self.progress,
            done=self.progress.done + accepted.done,
            failed=self.progress.failed + accepted.failed,
            computed=self.progress.computed + ended,
            seconds=seconds,
            left=self._left(seconds, self.progress.total - self.progress.done - self.progress.failed - ended),
        )

    def _left(self, seconds: float, trials: int) -> float | None:
        """Seconds that the rest, so many trials, will take, as far as can be told after so many seconds."""
        if self._grower is not None:
            share = self._grower.share
            return seconds * (1.0 - share) / share if share > 0 else None
        began = time.monotonic()
        if began < self._reckon_after and trials > 0:
            return self.progress.left
        measured = self._outlook.measured
        left = self._outlook.left() * seconds / measured if measured and self._outlook.settled else None
        now = time.monotonic()
        self._reckon_after = now + RECKONING_SHARE * (now - began)
        return left

    def observe(self, batch: Batch, worker: str, report: BatchReport) -> None:
        """Learn from what an attempt measured how long the rest will take."""
        cells = {trial.trial: trial.cell for trial in batch.trials}
        self._outlook.note(worker, [(cells[trial.trial], trial.wall_seconds) for trial in report.trials])
        if self._grower is not None:
            self._grower.note(trial.trial for trial in report.trials)

    def _rest(self) -> Iterator[Batch]:
        waiting = self._store.waiting_cells(self.sweep.id)
        self._learn_cells(one.cell for one in waiting)
        outlook = Outlook(self._store, self._cells, waiting)
        outlook.carry(self._outlook)
        self._outlook = outlook
        found = chain.from_iterable(
            batches(partial(self._page, span), self._cells, by_seed=self.timed) for span in outlook.spans
        )
        yield from shuffled(found) if self.timed else found

    def _page(self, span: Span, after: int, limit: int) -> list[Pending]:
        """Waiting trials of `span` beyond the position `after`, up to `limit`; empty if there are none."""
        after = max(after, span.first - 1)
        while after < span.last:
            page = self._store.pending(self.sweep.id, after, limit, span.last)
            if not page:
                break
            found = [trial for trial in page if trial.cell in span.cells]
            if found:
                return found
            after = page[-1].position
        return []

    def _learn_cells(self, cells: Iterable[int]) -> None:
        """Know `cells`: the sweep may have been extended."""
        if any(cell not in self._cells for cell in cells):
            self._cells.update(self._store.cells(self.sweep.id))
