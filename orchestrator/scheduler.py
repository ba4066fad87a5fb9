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

from models.devices.device import DeviceClass
from orchestrator.batching import Batch
from orchestrator.errors import ExecutorError
from orchestrator.executors.base import Event, Executor, Finished, Joined, Leaving, Lost, Refused
from orchestrator.fleet import Want
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
DECIDING_SECONDS = 0.03
"""How long to wait for workers at a time, and how long while it is decided what to ask for next."""

CONTROL_SECONDS = 1.0
FLEET_SECONDS = 3.0
"""How often to look for nodes that joined or left."""

RETURN_SECONDS = 60.0
"""How long a sweep waits for workers once it had some; what it waits before that is its policy."""

REREAD_SECONDS = 5.0
"""How often a sweep is read again that has nothing left but trials without workers."""

TURN_SECONDS = 10.0
"""How long it waits at least where there are workers, which others hold."""

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
        self._cards: dict[str, WorkerCard] = {}
        self._leaving: set[str] = set()
        self._refusals: dict[DeviceClass, str] = {}
        self._stranded: list[str] = []
        self._head_since: dict[str, float] = {}
        self._suspicions = Suspicions()
        self._restarts = 0
        self._controlled = self._renewed = self._looked_after = self._watched = 0.0

    def run(self) -> None:
        """Compute what is missing. Raises ExecutorError if no worker can be had; the sweeps are paused then."""
        try:
            self._run()
            if self._stranded:
                raise ExecutorError("; ".join(self._stranded))
        except BaseException:
            for job in self._jobs:
                for attempt in job.running:
                    self._store.lose(attempt, "preempted", "its orchestrator failed")
                if not self._store.counts(job.sweep.id).leased:  # nobody else is at it
                    self._store.set_sweep_state(job.sweep.id, SweepState.PAUSED)
            raise
        finally:
            self._store.retire_workers(list(self._holding))

    def _run(self) -> None:
        self._adopt()
        self._start_workers()
        self._started = time.monotonic()
        patiently(self._store.expire)
        while not self._stop.cancel.is_set():
            self._control()
            if not self._stop.drain.is_set():
                self._grow()
                self._fill()
                self._watch_all()
            if not self._running() and (self._stop.drain.is_set() or not self._look_further()):
                break
            deciding = any(job.is_deciding for job in self._jobs)
            for event in self._executor.wait(DECIDING_SECONDS if deciding else POLL_SECONDS):
                self._handle(event)
            self._part()
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
            patiently(self._store.see_workers, list(self._holding))
            patiently(self._store.expire)
        states = patiently(self._store.sweep_states, [job.sweep.id for job in self._jobs])
        for job in list(self._jobs):
            if states.get(job.sweep.id) != SweepState.RUNNING:
                job.closed = True
                if states.get(job.sweep.id) == SweepState.CANCELLED:
                    self._drop_attempts(job)
            if job.closed and not job.running:
                self._let_go(job)
        self._enforce_timeouts(now)
        self._adopt()
        if now - self._looked_after > FLEET_SECONDS:
            self._looked_after = now
            self._executor.grow(self._wants())
            for event in self._executor.wait(0):  # before anything is handed to a worker that is gone
                self._handle(event)

    def _watch_all(self) -> None:
        """Now and then, after work was handed out: see whether what is left has workers to go to."""
        now = time.monotonic()
        if now - self._watched >= CONTROL_SECONDS:
            self._watched = now
            for job in list(self._jobs):
                self._watch(job, now)

    def _watch(self, job: Job, now: float) -> None:
        """Say what a sweep waits for that has trials and no worker for them, and pause it when it waited too long."""
        shortage = None if job.closed else self._executor.shortage(job.demands_left(read=bool(self._holding)))
        refused = [] if shortage is None else [self._refusals[one] for one in shortage.devices & self._refusals.keys()]
        why = None if shortage is None else "; ".join(sorted(refused)) or shortage.why
        if job.wait_for(why):
            if why is not None:
                self._queue.log(job.sweep.id).warning("waiting for workers", why=why)
            self._on_progress(job.progress)
        if shortage is None or job.running:
            job.stuck_since = None
            return
        job.stuck_since = job.stuck_since or now
        hopeless = shortage.absent or bool(refused)
        least = RETURN_SECONDS if job.begun else 0.0 if hopeless else TURN_SECONDS
        if now - job.stuck_since >= max(60 * job.policy.wait, least):
            patiently(self._store.set_sweep_state, job.sweep.id, SweepState.PAUSED)
            self._queue.log(job.sweep.id).warning("sweep paused", why=why)
            self._stranded.append(f"sweep {job.sweep.id} is paused: {why}")
            self._let_go(job)

    def _grow(self) -> None:
        """Take up what follows from results, in sweeps that grow by them."""
        for job in self._jobs:
            if job.grow():
                self._on_progress(job.progress)

    def _look_further(self) -> bool:
        """Nothing runs and nothing was handed out: conclude finished sweeps; whether there is anything to wait for."""
        for job in list(self._jobs):
            if job.spent:
                patiently(self._store.cancel_pending, job.sweep.id)
            counts = patiently(self._store.counts, job.sweep.id)
            job.recount(counts)
            if counts.open == 0 and job.growing:
                job.wait_for_growth(POLL_SECONDS)
                continue
            if counts.open == 0:
                state = SweepState.FAILED if counts.failed or counts.cancelled else SweepState.DONE
                self._end(job, state)
            elif counts.pending == 0:
                time.sleep(POLL_SECONDS)  # what is left is leased to somebody else
                patiently(self._store.expire)
            elif job.progress.waiting is not None:
                time.sleep(POLL_SECONDS)
                if time.monotonic() - job.read_since < REREAD_SECONDS:
                    continue
            job.start_over()
        self._controlled = 0.0
        return bool(self._jobs)

    def _let_go(self, job: Job) -> None:
        """Stop looking after a sweep."""
        self._jobs.remove(job)
        job.close()
        self._queue.ended(job)

    def _end(self, job: Job, state: SweepState) -> None:
        patiently(self._store.set_sweep_state, job.sweep.id, state)
        self._queue.log(job.sweep.id).info(f"sweep {state}", done=job.progress.done, failed=job.progress.failed)
        self._let_go(job)

    def _leave(self, job: Job) -> None:
        """Stop working on a sweep that is not finished: paused, or cancelled."""
        if self._stop.cancel.is_set():
            patiently(self._store.set_sweep_state, job.sweep.id, SweepState.CANCELLED)
            self._drop_attempts(job)
            self._queue.log(job.sweep.id).info("sweep cancelled")
        else:
            patiently(self._store.set_sweep_state, job.sweep.id, SweepState.PAUSED)
            self._queue.log(job.sweep.id).info("sweep paused", done=job.progress.done)
        self._let_go(job)

    def _drop_attempts(self, job: Job) -> None:
        """Give up a cancelled sweep's attempts: what its workers still send back comes too late."""
        for attempt in list(job.running):
            patiently(self._store.lose, attempt, "cancelled", "the sweep was cancelled")
            del job.running[attempt]
        patiently(self._store.cancel_pending, job.sweep.id)

    # -- handing out -------------------------------------------------------------------------------------------------

    def _running(self) -> list[int]:
        return [attempt for job in self._jobs for attempt in job.running]

    def _wants(self) -> set[Want]:
        """Every kind of worker that could take some trial."""
        return {want for job in self._jobs for demand in job.demands for want in demand}

    def _start_workers(self) -> None:
        """Raises ExecutorError if every worker that there is was refused."""
        cards = self._executor.start(self._wants(), self._stop.drain.is_set)
        counted_on = [self._welcome(card) for card in cards]
        if counted_on and not any(counted_on):
            raise ExecutorError("; ".join(self._refusals.values()))

    def _welcome(self, card: WorkerCard) -> bool:
        """Note a worker, and count on it unless its device disagrees with the references; whether it is counted on."""
        patiently(
            lambda: self._store.register_worker(
                card.id,
                card.hardware,
                card.record,
                executor=self._executor.name,
                device=card.device,
                pid=card.pid,
                agreement=card.agreement,
            )
        )
        if card.agreement is not None and not card.agreement["ok"]:
            patiently(self._store.set_worker_state, card.id, "refused")
            self._refusals[card.device] = f"no worker can be used: {_disagreement(card)}"
            for job in self._jobs:
                self._queue.log(job.sweep.id).warning("worker refused", worker=card.id, why=_disagreement(card))
            self._executor.dismiss(card.id)
            return False
        self._holding[card.id] = deque()
        self._cards[card.id] = card
        self._refusals.pop(card.device, None)
        return True

    def _fill(self) -> None:
        """Give work to every worker that has room, the least loaded first."""
        kinds: dict[object, list[str]] = {}
        for worker in self._holding:
            kinds.setdefault(self._kind(worker), []).append(worker)
        for peers in kinds.values():
            if all(self._suspicions.aside(worker) for worker in peers):
                for worker in peers:  # nobody is left who could judge them
                    self._suspicions.forget(worker)
        idle = self._holding.keys() - self._leaving
        free = {worker: len(self._holding[worker]) for worker in idle if not self._suspicions.aside(worker)}
        while free:
            worker = min(free, key=free.__getitem__)
            if free[worker] >= self._executor.depth:
                return
            blocked = any(self._holding.get(rival) for rival in self._executor.rivals(worker))
            job, batch = (None, None) if blocked else self._next_batch(worker)
            if job is None or batch is None:
                del free[worker]
            elif self._hand_out(job, batch, worker):
                free[worker] += 1

    def _next_batch(self, worker: str) -> tuple[Job | None, Batch | None]:
        for job in self._jobs:
            batch = patiently(job.next_batch, self._cards[worker])
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
        self._executor.submit(worker, job.task(batch, lease, self._cards[worker].device))
        return True

    # -- taking back -------------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        match event:
            case Finished():
                self._take(event.worker, event.report)
            case Lost():
                self._mourn(event)
            case Joined():
                self._welcome(event.card)
                self._watched = 0.0
            case Leaving():
                self._leaving.add(event.worker)
                self._warn("worker leaves", worker=event.worker, why=event.message)
            case Refused():
                self._refusals[event.device] = event.message
                self._warn("worker refused", why=event.message)

    def _warn(self, event: str, **fields: object) -> None:
        """Tell the log of every sweep."""
        for job in self._jobs:
            self._queue.log(job.sweep.id).warning(event, **fields)

    def _part(self) -> None:
        """Let workers go whose nodes are about to leave, once they hold nothing."""
        for worker in [worker for worker in self._leaving if not self._holding.get(worker)]:
            if worker in self._holding:
                self._executor.dismiss(worker)
                patiently(self._store.set_worker_state, worker, "stopped")
            self._forget(worker)

    def _forget(self, worker: str) -> None:
        """A worker is gone."""
        self._holding.pop(worker, None)
        self._leaving.discard(worker)
        self._suspicions.forget(worker)

    def _take(self, worker: str, report: BatchReport) -> None:
        held = self._holding.get(worker, deque())
        if report.attempt in held:  # a worker that was quarantined meanwhile holds nothing
            held.remove(report.attempt)
        self._head_since[worker] = time.monotonic()
        job = self._job_of(report.attempt)
        failed = {trial.trial for trial in report.trials if trial.outcome.metrics is None}
        done = {trial.trial for trial in report.trials} - failed
        others = any(self._may_judge(other, worker) for other in self._holding)
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

    def _may_judge(self, other: str, worker: str) -> bool:
        """Whether `other` can give a second opinion on what `worker` was handed."""
        alike = self._kind(other) == self._kind(worker)
        return other != worker and alike and other not in self._leaving and not self._suspicions.aside(other)

    def _kind(self, worker: str) -> object:
        """What workers have in common that can run each other's trials: the device, and where times are measured, the
        machine."""
        card = self._cards[worker]
        return card.device, card.machine if any(job.timed for job in self._jobs) else None

    def _job_of(self, attempt: int) -> Job | None:
        """The job whose attempt this is; None if it was cancelled meanwhile."""
        return next((job for job in self._jobs if attempt in job.running), None)

    def _note(self, job: Job, batch: Batch, worker: str, report: BatchReport, accepted: Accepted) -> None:
        job.observe(batch, worker, report)
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
        self._forget(event.worker)
        self._replace(event)

    def _give_up(self, worker: str, attempts: Sequence[int], reason: str, message: str) -> None:
        for attempt in attempts:
            self._lose(attempt, worker, reason, message, ())
        self._forget(worker)

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
        if (card is not None and self._welcome(card)) or self._holding:
            return
        shortage = self._executor.shortage({demand for job in self._jobs for demand in job.demands})
        if shortage is None or not shortage.absent:  # else the nodes have left, and others may join
            self._restart(event.message)

    def _restart(self, message: str) -> None:
        """Every worker is gone: start anew a few times before giving up."""
        if self._restarts >= MOST_RESTARTS:
            raise ExecutorError(f"every worker was lost, {MOST_RESTARTS} times; the last one said: {message}")
        self._restarts += 1
        for job in self._jobs:
            self._queue.log(job.sweep.id).warning("all workers lost, starting anew", message=message)
        self._executor.stop()
        self._start_workers()

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


def _disagreement(card: WorkerCard) -> str:
    """What a worker's agreement probe found wrong."""
    found = card.agreement or {}
    shown = "; ".join(found["disagreements"][:3])
    more = len(found["disagreements"]) - 3
    others = f"; and {more} more" if more > 0 else ""
    return (
        f"its {card.device} disagrees with the float64 references, by decisions that are further than "
        f"{found['tolerance']:g} from a tie: {shown}{others}"
    )


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
