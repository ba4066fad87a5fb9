"""Handing a sweep's batches to workers under leases, and taking back what they return, exactly once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from orchestrator.batching import Batch, batches
from orchestrator.errors import ExecutorError
from orchestrator.executors.base import Event, Executor, Finished
from orchestrator.store.records import Accepted, Lease, SweepRow, TrialResult
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store
from workers.batch import BatchReport, BatchTask
from workers.host import WorkerCard

LEASE_SECONDS = 60.0
POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Progress:
    """How far a sweep is. `computed` counts trials finished by this run, in `seconds` since its workers were ready."""

    total: int
    done: int
    failed: int
    reused: int
    computed: int = 0
    seconds: float = 0.0


class StopRequest:
    """Set from a signal handler or another thread: drain (finish what runs, hand out no more) or cancel."""

    def __init__(self) -> None:
        self.drain = threading.Event()
        self.cancel = threading.Event()

    def escalate(self) -> None:
        """The first call asks to drain, the second to cancel."""
        (self.cancel if self.drain.is_set() else self.drain).set()


class Scheduler:
    """Runs one sweep on one executor until nothing is left to compute, or until asked to stop."""

    def __init__(
        self,
        store: Store,
        executor: Executor,
        sweep: SweepRow,
        on_progress: Callable[[Progress], None],
        stop: StopRequest,
    ) -> None:
        self._store = store
        self._executor = executor
        self._sweep = sweep
        self._on_progress = on_progress
        self._stop = stop
        self._cells = store.cells(sweep.id)
        self._trees = {id_: cell.mechanism for id_, cell in self._cells.items()}
        self._running: dict[int, str] = {}
        self._loads: dict[str, int] = {}
        counts = sweep.counts
        self._progress = Progress(counts.total, counts.done, counts.failed, sweep.reused)
        self._renewed = 0.0

    def run(self) -> SweepState:
        """Compute what is missing; the state the sweep is in afterwards (it is set in the store)."""
        self._store.set_sweep_state(self._sweep.id, SweepState.RUNNING)
        for card in self._executor.start():
            self._welcome(card)
        self._started = time.monotonic()
        waiting = self._batches()
        while not self._stop.cancel.is_set():
            if not self._stop.drain.is_set():
                self._fill(waiting)
            if not self._running:
                if self._stop.drain.is_set():
                    break
                counts = self._store.counts(self._sweep.id)
                if counts.open == 0:
                    break
                self._store.expire()
                waiting = self._batches()
                if counts.pending == 0:
                    time.sleep(POLL_SECONDS)  # what is left is leased to somebody else
                continue
            for event in self._executor.wait(POLL_SECONDS):
                self._handle(event)
            self._renew()
        return self._conclude()

    def _batches(self) -> Iterator[Batch]:
        return batches(lambda after, limit: self._store.pending(self._sweep.id, after, limit), self._cells)

    def _welcome(self, card: WorkerCard) -> None:
        self._store.register_worker(
            card.id, card.hardware, card.record, executor=self._executor.name, device=card.device, pid=card.pid
        )
        self._loads[card.id] = 0

    def _fill(self, waiting: Iterator[Batch]) -> None:
        """Give work to every worker that has room, the least loaded first."""
        while self._loads:
            worker = min(self._loads, key=self._loads.__getitem__)
            if self._loads[worker] >= self._executor.depth:
                return
            batch = next(waiting, None)
            if batch is None:
                return
            lease = self._store.claim(self._sweep.id, [t.trial for t in batch.trials], worker, LEASE_SECONDS)
            if lease is not None:
                self._running[lease.attempt] = worker
                self._loads[worker] += 1
                self._executor.submit(worker, self._task(batch, lease))

    def _task(self, batch: Batch, lease: Lease) -> BatchTask:
        leased = set(lease.trials)
        trials = [trial for trial in batch.trials if trial.trial in leased]
        cells = list(dict.fromkeys(trial.cell for trial in trials))
        index = {cell: i for i, cell in enumerate(cells)}
        first = self._cells[trials[0].cell]
        return BatchTask(
            attempt=lease.attempt,
            workload=first.workload,
            mechanisms=tuple(self._trees[cell] for cell in cells),
            trials=tuple((trial.trial, trial.seed, index[trial.cell]) for trial in trials),
            episodes=first.episodes,
            dtype=first.dtype,
        )

    def _handle(self, event: Event) -> None:
        if isinstance(event, Finished):
            attempt = event.report.attempt
            accepted = self._store.accept(attempt, event.worker, _results(event.report))
            self._running.pop(attempt, None)
            self._loads[event.worker] -= 1
            self._count(accepted)
            return
        self._loads.pop(event.worker, None)
        for attempt in event.attempts:
            self._running.pop(attempt, None)
            self._count(self._store.lose(attempt, "worker_lost", event.message))
        card = self._executor.replace(event.worker)
        if card is not None:
            self._welcome(card)
        elif not self._loads:
            raise ExecutorError(f"every worker was lost; the last one said: {event.message}")

    def _count(self, accepted: Accepted) -> None:
        self._progress = replace(
            self._progress,
            done=self._progress.done + accepted.done,
            failed=self._progress.failed + accepted.failed,
            computed=self._progress.computed + accepted.done + accepted.failed,
            seconds=time.monotonic() - self._started,
        )
        self._on_progress(self._progress)

    def _renew(self) -> None:
        now = time.monotonic()
        if now - self._renewed > LEASE_SECONDS / 4:
            self._renewed = now
            self._store.renew(list(self._running), LEASE_SECONDS)

    def _conclude(self) -> SweepState:
        if self._stop.cancel.is_set():
            for attempt in list(self._running):
                self._store.lose(attempt, "cancelled", "the sweep was cancelled")
            self._store.cancel_pending(self._sweep.id)
            state = SweepState.CANCELLED
        else:
            counts = self._store.counts(self._sweep.id)
            if counts.open:
                state = SweepState.PAUSED
            else:
                state = SweepState.FAILED if counts.failed or counts.cancelled else SweepState.DONE
        self._store.set_sweep_state(self._sweep.id, state)
        return state


def _results(report: BatchReport) -> list[TrialResult]:
    return [
        TrialResult(
            trial=trial.trial,
            metrics=trial.outcome.metrics,
            reason=trial.outcome.reason,
            message=trial.outcome.message,
            started=trial.started,
            finished=trial.finished,
            wall_seconds=trial.wall_seconds,
            cpu_seconds=trial.cpu_seconds,
            peak_memory_bytes=report.peak_memory_bytes,
        )
        for trial in report.trials
    ]
