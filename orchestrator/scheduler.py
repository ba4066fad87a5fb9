"""Handing batches to workers under leases, and taking back what they return, exactly once.

The store is the truth: whatever this process believes, a result counts only if the attempt still holds its lease, and
whatever is lost here is found again there.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from orchestrator.batching import Batch
from orchestrator.errors import ExecutorError
from orchestrator.executors.base import Event, Executor, Finished, Lost
from orchestrator.job import Job, Progress
from orchestrator.patience import patiently
from orchestrator.store.records import Accepted, TrialResult
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store
from orchestrator.suspicion import Suspicions, Verdict
from workers.batch import BatchReport
from workers.host import WorkerCard

LEASE_SECONDS = 60.0
POLL_SECONDS = 0.25
CONTROL_SECONDS = 1.0
TIMEOUT_GRACE_SECONDS = 2.0
MOST_RESTARTS = 3


class StopRequest:
    """Set from a signal handler or another thread: drain (finish what runs, hand out no more) or cancel."""

    def __init__(self) -> None:
        self.drain = threading.Event()
        self.cancel = threading.Event()

    def escalate(self) -> None:
        """The first call asks to drain, the second to cancel."""
        (self.cancel if self.drain.is_set() else self.drain).set()


class Log(Protocol):
    """Where events of a sweep are written."""

    def info(self, event: str, **fields: object) -> None:
        """Something happened."""

    def warning(self, event: str, **fields: object) -> None:
        """Something went wrong that the sweep copes with."""


class Queue(Protocol):
    """Which sweeps a scheduler runs."""

    def adopt(self) -> Sequence[Job]:
        """Sweeps to take on now."""

    def log(self, sweep: str) -> Log:
        """The sweep's log."""

    def ended(self, job: Job) -> None:
        """A sweep has ended, or was left paused."""


class Scheduler:
    """Runs sweeps on one executor, by priority, until none has anything left, or until asked to stop."""

    def __init__(
        self,
        store: Store,
        executor: Executor,
        queue: Queue,
        on_progress: Callable[[Progress], None],
        stop: StopRequest,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._store = store
        self._executor = executor
        self._queue = queue
        self._on_progress = on_progress
        self._stop = stop
        self._lease_seconds = lease_seconds
        self._orchestrator = store.register_orchestrator()
        self._jobs: list[Job] = []
        self._holding: dict[str, deque[int]] = {}
        self._head_since: dict[str, float] = {}
        self._suspicions = Suspicions()
        self._restarts = 0
        self._controlled = self._renewed = 0.0

    def run(self) -> None:
        """Compute what is missing. Raises ExecutorError if no worker can be had; the sweeps are paused then."""
        try:
            self._run()
        except BaseException:
            for job in self._jobs:
                for attempt in job.running:
                    self._store.lose(attempt, "preempted", "its orchestrator failed")
                if not self._store.counts(job.sweep.id).leased:  # nobody else is at it
                    self._store.set_sweep_state(job.sweep.id, SweepState.PAUSED)
            raise

    def _run(self) -> None:
        self._adopt()
        for card in self._executor.start(self._stop.drain.is_set):
            self._welcome(card)
        self._started = time.monotonic()
        patiently(self._store.expire)
        while not self._stop.cancel.is_set():
            self._control()
            if not self._stop.drain.is_set():
                self._fill()
            if not self._running() and (self._stop.drain.is_set() or not self._look_further()):
                break
            for event in self._executor.wait(POLL_SECONDS):
                self._handle(event)
        for job in list(self._jobs):
            self._leave(job)

    # -- which sweeps ------------------------------------------------------------------------------------------------

    def _adopt(self) -> None:
        for job in self._queue.adopt():
            patiently(self._store.set_sweep_state, job.sweep.id, SweepState.RUNNING)
            self._queue.log(job.sweep.id).info("sweep running", pending=job.sweep.counts.open)
            self._jobs.append(job)
            self._on_progress(job.progress)
        self._jobs.sort(key=lambda job: job.rank)

    def _control(self) -> None:
        """Now and then: renew leases, obey changes of state made elsewhere, enforce time limits, take on new sweeps."""
        now = time.monotonic()
        if now - self._controlled < CONTROL_SECONDS:
            return
        self._controlled = now
        if now - self._renewed > self._lease_seconds / 4:
            self._renewed = now
            patiently(self._store.renew, self._running(), self._lease_seconds)
            patiently(self._store.expire)
        states = patiently(self._store.sweep_states, [job.sweep.id for job in self._jobs])
        for job in list(self._jobs):
            if states.get(job.sweep.id) != SweepState.RUNNING:
                job.closed = True
                if states.get(job.sweep.id) == SweepState.CANCELLED:
                    self._drop_attempts(job)
            if job.closed and not job.running:
                self._jobs.remove(job)
                self._queue.ended(job)
        self._enforce_timeouts(now)
        self._adopt()

    def _look_further(self) -> bool:
        """Nothing runs and nothing was handed out: conclude finished sweeps; whether there is anything to wait for."""
        for job in list(self._jobs):
            if job.spent:
                patiently(self._store.cancel_pending, job.sweep.id)
            counts = patiently(self._store.counts, job.sweep.id)
            job.recount(counts)
            if counts.open == 0:
                state = SweepState.FAILED if counts.failed or counts.cancelled else SweepState.DONE
                self._end(job, state)
            elif counts.pending == 0:
                time.sleep(POLL_SECONDS)  # what is left is leased to somebody else
                patiently(self._store.expire)
            job.start_over()
        self._controlled = 0.0
        return bool(self._jobs)

    def _end(self, job: Job, state: SweepState) -> None:
        patiently(self._store.set_sweep_state, job.sweep.id, state)
        self._queue.log(job.sweep.id).info(f"sweep {state}", done=job.progress.done, failed=job.progress.failed)
        self._jobs.remove(job)
        self._queue.ended(job)

    def _leave(self, job: Job) -> None:
        """Stop working on a sweep that is not finished: paused, or cancelled."""
        if self._stop.cancel.is_set():
            patiently(self._store.set_sweep_state, job.sweep.id, SweepState.CANCELLED)
            self._drop_attempts(job)
            self._queue.log(job.sweep.id).info("sweep cancelled")
        else:
            patiently(self._store.set_sweep_state, job.sweep.id, SweepState.PAUSED)
            self._queue.log(job.sweep.id).info("sweep paused", done=job.progress.done)
        self._jobs.remove(job)
        self._queue.ended(job)

    def _drop_attempts(self, job: Job) -> None:
        """Give up a cancelled sweep's attempts: what its workers still send back comes too late."""
        for attempt in list(job.running):
            patiently(self._store.lose, attempt, "cancelled", "the sweep was cancelled")
            del job.running[attempt]
        patiently(self._store.cancel_pending, job.sweep.id)

    # -- handing out -------------------------------------------------------------------------------------------------

    def _running(self) -> list[int]:
        return [attempt for job in self._jobs for attempt in job.running]

    def _welcome(self, card: WorkerCard) -> None:
        patiently(
            lambda: self._store.register_worker(
                card.id, card.hardware, card.record, executor=self._executor.name, device=card.device, pid=card.pid
            )
        )
        self._holding[card.id] = deque()

    def _fill(self) -> None:
        """Give work to every worker that has room, the least loaded first."""
        if all(self._suspicions.aside(worker) for worker in self._holding):
            for worker in self._holding:  # nobody is left who could judge them
                self._suspicions.forget(worker)
        free = {worker: len(held) for worker, held in self._holding.items() if not self._suspicions.aside(worker)}
        while free:
            worker = min(free, key=free.__getitem__)
            if free[worker] >= self._executor.depth:
                return
            job, batch = self._next_batch()
            if job is None or batch is None:
                return
            if self._hand_out(job, batch, worker):
                free[worker] += 1

    def _next_batch(self) -> tuple[Job | None, Batch | None]:
        for job in self._jobs:
            batch = patiently(job.next_batch)
            if batch is not None:
                return job, batch
        return None, None

    def _hand_out(self, job: Job, batch: Batch, worker: str) -> bool:
        trials = [trial.trial for trial in batch.trials]
        lease = patiently(self._store.claim, job.sweep.id, trials, worker, self._lease_seconds, self._orchestrator)
        if lease is None:
            return False
        job.running[lease.attempt] = batch
        if not self._holding[worker]:
            self._head_since[worker] = time.monotonic()
        self._holding[worker].append(lease.attempt)
        self._executor.submit(worker, job.task(batch, lease))
        return True

    # -- taking back -------------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        if isinstance(event, Finished):
            self._take(event.worker, event.report)
        else:
            self._mourn(event)

    def _take(self, worker: str, report: BatchReport) -> None:
        held = self._holding.get(worker, deque())
        if report.attempt in held:  # a worker that was quarantined meanwhile holds nothing
            held.remove(report.attempt)
        self._head_since[worker] = time.monotonic()
        job = self._job_of(report.attempt)
        failed = {trial.trial for trial in report.trials if trial.outcome.metrics is None}
        done = {trial.trial for trial in report.trials} - failed
        others = any(not self._suspicions.aside(other) for other in self._holding if other != worker)
        suspected = self._suspicions.suspect(worker, failed, done, others=others)
        accepted = patiently(
            lambda: self._store.accept(
                report.attempt, worker, _results(report), "\n".join(report.log) or None, second_opinion=suspected
            )
        )
        if job is not None:
            batch = job.running.pop(report.attempt)
            if suspected:
                job.hasten(batch, failed)
            self._note(job, batch, worker, report, accepted)
        for suspect, verdict in self._suspicions.hear(worker, failed, done).items():
            self._judge(suspect, verdict)

    def _job_of(self, attempt: int) -> Job | None:
        """The job whose attempt this is; None if it was cancelled meanwhile."""
        return next((job for job in self._jobs if attempt in job.running), None)

    def _note(self, job: Job, batch: Batch, worker: str, report: BatchReport, accepted: Accepted) -> None:
        job.count(accepted, time.monotonic() - self._started)
        log = self._queue.log(job.sweep.id)
        positions = {trial.trial: trial.position for trial in batch.trials}
        log.info("batch done", batch=report.attempt, worker=worker, done=accepted.done, failed=accepted.failed)
        for trial in report.trials:
            if trial.outcome.metrics is None:
                log.warning(
                    "trial failed",
                    batch=report.attempt,
                    worker=worker,
                    trial=positions[trial.trial],
                    reason=trial.outcome.reason,
                    message=trial.outcome.message,
                    lines=list(report.log),
                )
        if accepted.stale:
            log.warning("results came too late", batch=report.attempt, worker=worker, count=accepted.stale)
        self._on_progress(job.progress)

    def _judge(self, worker: str, verdict: Verdict) -> None:
        if verdict == Verdict.ACQUIT or worker not in self._holding:
            return
        patiently(self._store.set_worker_state, worker, "quarantined")
        for job in self._jobs:
            self._queue.log(job.sweep.id).warning("worker quarantined", worker=worker)
        self._give_up(worker, self._executor.dismiss(worker), "preempted", "its worker was quarantined")

    def _mourn(self, event: Lost) -> None:
        """A worker is gone: what it was computing counts as lost, what it merely held goes back freely."""
        patiently(self._store.set_worker_state, event.worker, "lost")
        held = self._holding.get(event.worker, deque())
        head = held[0] if held else None
        for attempt in event.attempts:
            reason = event.reason if attempt == head else "preempted"
            self._lose(attempt, event.worker, reason, event.message, event.log)
        self._holding.pop(event.worker, None)
        self._suspicions.forget(event.worker)
        self._replace(event)

    def _give_up(self, worker: str, attempts: Sequence[int], reason: str, message: str) -> None:
        for attempt in attempts:
            self._lose(attempt, worker, reason, message, ())
        self._holding.pop(worker, None)
        self._suspicions.forget(worker)

    def _lose(self, attempt: int, worker: str, reason: str, message: str, log: Sequence[str]) -> None:
        accepted = patiently(self._store.lose, attempt, reason, message, "\n".join(log) or None)
        job = self._job_of(attempt)
        if job is None:
            return
        del job.running[attempt]
        job.count(accepted, time.monotonic() - self._started)
        self._queue.log(job.sweep.id).warning(
            "batch lost", batch=attempt, worker=worker, reason=reason, message=message, lines=list(log)
        )
        self._on_progress(job.progress)

    def _replace(self, event: Lost) -> None:
        card = self._executor.replace(event.worker)
        if card is not None:
            self._welcome(card)
        elif not self._holding:
            self._restart(event.message)

    def _restart(self, message: str) -> None:
        """Every worker is gone: start anew a few times before giving up."""
        if self._restarts >= MOST_RESTARTS:
            raise ExecutorError(f"every worker was lost, {MOST_RESTARTS} times; the last one said: {message}")
        self._restarts += 1
        for job in self._jobs:
            self._queue.log(job.sweep.id).warning("all workers lost, starting anew", message=message)
        self._executor.stop()
        for card in self._executor.start(self._stop.drain.is_set):
            self._welcome(card)

    def _enforce_timeouts(self, now: float) -> None:
        """Kill workers that compute a batch for longer than its trials may take together."""
        for worker, held in list(self._holding.items()):
            job = self._job_of(held[0]) if held else None
            if job is None or job.policy.timeout is None:
                continue
            trials = len(job.running[held[0]].trials)
            if now - self._head_since[worker] > job.policy.timeout * trials + TIMEOUT_GRACE_SECONDS:
                event = self._executor.kill(worker)
                message = f"{trials} trials took longer than {job.policy.timeout:g} s each"
                self._mourn(Lost(worker, event.attempts, message, "timeout", event.log))


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
            peak_memory_bytes=trial.peak_memory_bytes,
            series=trial.outcome.series,
            energy_joules=trial.energy_joules,
            energy_reason=trial.energy_reason,
            device_memory_bytes=trial.device_memory_bytes,
            own_seconds=trial.own_seconds,
        )
        for trial in report.trials
    ]
