"""Handing batches to workers under leases, and taking back what they return, exactly once.

The store is the truth: whatever this process believes, a result counts only if the attempt still holds its lease, and
whatever is lost here is found again there.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from models.devices.device import DeviceClass
from orchestrator.batching import Batch
from orchestrator.errors import ExecutorError
from orchestrator.executors.base import Event, Executor, Finished, Joined, Leaving, Lost, Refused
from orchestrator.fleet import Want
from orchestrator.job import Job, Progress
from orchestrator.patience import patiently
from orchestrator.returned import Returned, stored_together
from orchestrator.shares import Shares
from orchestrator.store.records import Accepted, Claim
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store
from orchestrator.suspicion import Suspicions, Verdict
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

REST_SECONDS = 60.0
"""How long a worker may have nothing to do where machines come and go with the work: longer than the next batch takes
to come, shorter than machines are kept that nobody uses."""

FEWEST_COUNTED = 64
"""As many batches that wait are counted at least, else as many as there are workers."""

TURN_SECONDS = 10.0
"""How long it waits at least where there are workers, which others hold."""

TRIALS_AT_ONCE = 2_000
"""Trials that are leased, or stored, in one transaction: others wait for it, and more would cost no less each."""

TIMEOUT_GRACE_SECONDS = 2.0
MOST_RESTARTS = 3


class StopRequest:
    """Set from a signal handler or another thread.

    drain   finish what runs, hand out no more
    cancel  cancel the sweeps
    leave   give back at once what runs, for whoever goes on with the sweeps
    """

    def __init__(self) -> None:
        self.drain = threading.Event()
        self.cancel = threading.Event()
        self.leave = threading.Event()

    @property
    def at_once(self) -> bool:
        """Whether what runs is not waited for."""
        return self.cancel.is_set() or self.leave.is_set()

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

    def expects_more(self) -> bool:
        """Whether sweeps may come for which workers are to be kept, now that there is none."""


class Scheduler:
    """Runs sweeps on one executor until none has anything left, or until asked to stop.

    Those of the highest priority come first; among these, those of the user who has had the least worker time lately,
    and a user's own by age. With `serving`, sweeps are nobody's to pause but their users': those that it leaves stay
    running, for whoever goes on with them, and those without workers wait until some join. `ready` is called once
    workers are there, or will not be.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        queue: Queue,
        on_progress: Callable[[Progress], None],
        stop: StopRequest,
        ready: Callable[[], None] = lambda: None,
        lease_seconds: float = LEASE_SECONDS,
        *,
        serving: bool = False,
    ) -> None:
        self._store = store
        self._executor = executor
        self._ready = ready
        self._queue = queue
        self._on_progress = on_progress
        self._stop = stop
        self._lease_seconds = lease_seconds
        self._serving = serving
        self._orchestrator = store.register_orchestrator()
        self._jobs: list[Job] = []
        self._peers: list[dict[str | None, list[Job]]] = []
        self._shares = Shares()
        self._holding: dict[str, deque[int]] = {}
        self._cards: dict[str, WorkerCard] = {}
        self._leaving: set[str] = set()
        self._refusals: dict[DeviceClass, str] = {}
        self._stranded: list[str] = []
        self._head_since: dict[str, float] = {}
        self._suspicions = Suspicions()
        self._waiting: dict[Want, int] = {}
        self._restarts = 0
        self._unwanted = False
        self._controlled = self._renewed = self._looked_after = self._watched = 0.0

    def run(self) -> None:
        """Compute what is missing. Raises ExecutorError if no worker can be had; the sweeps are paused then, unless
        this is a service's."""
        try:
            self._run()
            if self._stranded:
                raise ExecutorError("; ".join(self._stranded))
        except BaseException:
            for job in self._jobs:
                self._store.lose_all(list(job.running), "preempted", "its orchestrator failed")
                if not self._serving and not self._store.counts(job.sweep.id).leased:  # nobody else is at it
                    self._store.set_sweep_state(job.sweep.id, SweepState.PAUSED)
            raise
        finally:
            self._store.retire_workers(list(self._holding))

    def _run(self) -> None:
        self._adopt()
        self._start_workers()
        if self._unwanted:
            self._drop_all()
            return
        self._started = time.monotonic()
        patiently(self._store.expire)
        while not self._stop.at_once:
            self._control()
            if not self._stop.drain.is_set():
                self._grow()
                self._fill()
                self._watch_all()
            if not any(job.running for job in self._jobs) and (self._stop.drain.is_set() or not self._look_further()):
                break
            deciding = any(job.is_deciding for job in self._jobs)
            self._handle_all(self._executor.wait(DECIDING_SECONDS if deciding else POLL_SECONDS))
            self._part()
        for job in list(self._jobs):
            self._leave(job)

    # -- which sweeps ------------------------------------------------------------------------------------------------

    def _adopt(self) -> None:
        for job in self._queue.adopt():
            # Who changed it since it was read is obeyed: `_control` will see.
            patiently(self._store.set_sweep_state, job.sweep.id, SweepState.RUNNING, job.sweep.state)
            self._queue.log(job.sweep.id).info("sweep running", pending=job.sweep.counts.open)
            self._jobs.append(job)
            self._on_progress(job.progress)
        self._jobs.sort(key=lambda job: job.rank)
        self._line_up()

    def _line_up(self) -> None:
        """Arrange the sweeps by priority, and those of one priority by user."""
        self._peers = []
        for _, jobs in itertools.groupby(self._jobs, key=lambda job: job.policy.priority):
            users: dict[str | None, list[Job]] = {}
            for job in jobs:
                users.setdefault(job.sweep.user, []).append(job)
            self._peers.append(users)
        self._shares.attend({job.sweep.user for job in self._jobs}, time.monotonic())

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
        self._enforce_caps(now)
        if not self._gives_up():
            for job in [job for job in self._jobs if job.exhausted and not job.running and not job.closed]:
                self._review(job, 0.0)  # others may keep the workers busy for long
            self._adopt()
        if now - self._looked_after > FLEET_SECONDS:
            self._looked_after = now
            self._executor.grow(self._wants(), self._waiting)
            self._handle_all(self._executor.wait(0))  # before anything is handed to a worker that is gone

    def _watch_all(self) -> None:
        """Now and then, after work was handed out: see whether what is left has workers to go to."""
        now = time.monotonic()
        if now - self._watched >= CONTROL_SECONDS:
            self._watched = now
            if self._executor.scales:
                self._waiting = self._count_waiting()
                self._let_rest(now)
            for job in list(self._jobs):
                self._watch(job, now)

    def _watch(self, job: Job, now: float) -> None:
        """Say what a sweep waits for that has trials and no worker for them, and pause it when it waited too long."""
        read = bool(self._holding) or self._executor.scales
        shortage = None if job.closed else self._executor.shortage(job.demands_left(read=read))
        refused = [] if shortage is None else [self._refusals[one] for one in shortage.devices & self._refusals.keys()]
        why = None if shortage is None else "; ".join(sorted(refused)) or shortage.why
        if job.wait_for(why):
            if why is not None:
                self._queue.log(job.sweep.id).warning("waiting for workers", why=why)
            self._on_progress(job.progress)
        if shortage is None or job.running or self._serving:
            job.stuck_since = None
            return
        job.stuck_since = job.stuck_since or now
        hopeless = shortage.absent or bool(refused)
        least = RETURN_SECONDS if job.begun else 0.0 if hopeless else TURN_SECONDS
        if now - job.stuck_since >= max(60 * job.policy.wait, least):
            patiently(self._store.set_sweep_state, job.sweep.id, SweepState.PAUSED, why=why)
            self._queue.log(job.sweep.id).warning("sweep paused", why=why)
            self._stranded.append(f"sweep {job.sweep.id} is paused: {why}")
            self._let_go(job)

    def _grow(self) -> None:
        """Take up what follows from results, in sweeps that grow by them."""
        for job in self._jobs:
            try:
                grown = job.grow()
            except Exception as error:
                if not self._serving:
                    raise
                self._break(job, error)
                continue
            if grown:
                self._on_progress(job.progress)

    def _break(self, job: Job, error: Exception) -> None:
        """A sweep cannot go on, by its own fault: pause it, and let the others go on."""
        self._halt(job, f"it cannot go on: {type(error).__name__}: {error}")

    def _halt(self, job: Job, why: str) -> None:
        """Pause a sweep of which nothing more may be handed out; what runs is finished."""
        patiently(self._store.set_sweep_state, job.sweep.id, SweepState.PAUSED, why=why)
        self._queue.log(job.sweep.id).warning("sweep paused", why=why)
        job.closed = True
        job.broken = why
        job.wait_for(why)
        self._on_progress(job.progress)

    def _look_further(self) -> bool:
        """Nothing runs and nothing was handed out: conclude finished sweeps; whether there is anything to wait for."""
        for job in list(self._jobs):
            self._review(job, POLL_SECONDS)
        self._controlled = 0.0
        if not self._jobs and self._queue.expects_more():
            time.sleep(POLL_SECONDS)
            return True
        return bool(self._jobs)

    def _review(self, job: Job, seconds: float) -> None:
        """Nothing of a sweep runs, and it has nothing to hand out: end it, or read again what is left of it.

        For what others bring, `seconds` are waited at most.
        """
        if job.spent:
            patiently(self._store.cancel_pending, job.sweep.id)
        counts = patiently(self._store.counts, job.sweep.id)
        job.recount(counts)
        if counts.open == 0 and job.growing:
            job.wait_for_growth(seconds)
            return
        if counts.open == 0:
            self._end(job, SweepState.FAILED if counts.failed or counts.cancelled else SweepState.DONE)
            return
        if counts.pending == 0:
            time.sleep(seconds)  # what is left is leased to somebody else
            patiently(self._store.expire)
        elif job.progress.waiting is not None:
            time.sleep(seconds)
            if time.monotonic() - job.read_since < REREAD_SECONDS:
                return
        job.start_over()

    def _let_go(self, job: Job) -> None:
        """Stop looking after a sweep."""
        self._jobs.remove(job)
        self._line_up()
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
        elif self._serving:
            self._hand_back(job)
            return
        else:
            patiently(self._store.set_sweep_state, job.sweep.id, SweepState.PAUSED)
            self._queue.log(job.sweep.id).info("sweep paused", done=job.progress.done)
        self._let_go(job)

    def _hand_back(self, job: Job) -> None:
        """Leave a sweep to whoever goes on with it."""
        patiently(self._store.lose_all, list(job.running), "preempted", "the process that runs sweeps was stopped")
        job.running.clear()
        self._jobs.remove(job)
        self._queue.log(job.sweep.id).info("sweep left to be gone on with", done=job.progress.done)

    def _drop_attempts(self, job: Job) -> None:
        """Give up a cancelled sweep's attempts: what its workers still send back comes too late."""
        patiently(self._store.lose_all, list(job.running), "cancelled", "the sweep was cancelled")
        job.running.clear()
        patiently(self._store.cancel_pending, job.sweep.id)

    # -- handing out -------------------------------------------------------------------------------------------------

    def _running(self) -> list[int]:
        return [attempt for job in self._jobs for attempt in job.running]

    def _wants(self) -> set[Want]:
        """Every kind of worker that could take some trial."""
        return {want for job in self._jobs for demand in job.demands for want in demand}

    def _count_waiting(self) -> dict[Want, int]:
        """Batches that wait beside those that workers hold, by what could run them, as far as that matters."""
        most = max(FEWEST_COUNTED, len(self._holding))
        found: dict[Want, int] = {}
        for job in self._jobs:
            for want, count in patiently(job.count_waiting, most).items():
                found[want] = found.get(want, 0) + count
        return found

    def _gives_up(self) -> bool:
        return self._stop.drain.is_set() or self._stop.at_once

    def _is_unwanted(self) -> bool:
        """Whether nobody waits for workers: this is to end, or every sweep was paused or cancelled meanwhile."""
        now = time.monotonic()
        if now - self._controlled >= CONTROL_SECONDS:
            self._controlled = now
            states = patiently(self._store.sweep_states, [job.sweep.id for job in self._jobs])
            self._unwanted = all(states.get(job.sweep.id) != SweepState.RUNNING for job in self._jobs)
        return self._unwanted or self._gives_up()

    def _drop_all(self) -> None:
        """Stop looking after sweeps that were all paused or cancelled before a worker was there."""
        states = patiently(self._store.sweep_states, [job.sweep.id for job in self._jobs])
        for job in list(self._jobs):
            if states.get(job.sweep.id) == SweepState.CANCELLED:
                self._drop_attempts(job)
            self._let_go(job)

    def _start_workers(self) -> None:
        """Raises ExecutorError if every worker that there is was refused."""
        try:
            cards = self._executor.start(self._wants(), self._is_unwanted)
        finally:
            self._ready()
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
        self._head_since[card.id] = time.monotonic()
        self._cards[card.id] = card
        self._refusals.pop(card.device, None)
        return True

    def _fill(self) -> None:
        """Give work to every worker that has room, the least loaded first."""
        if self._suspicions.any_aside:
            self._readmit()
        fruitless: set[Want] = set()
        while asked := self._choose(fruitless):
            self._hand_out(asked)

    def _readmit(self) -> None:
        """Where all workers of a kind wait for a second opinion, nobody is left who could judge them."""
        kinds: dict[object, list[str]] = {}
        for worker in self._holding:
            kinds.setdefault(self._kind(worker), []).append(worker)
        for peers in kinds.values():
            if all(self._suspicions.aside(worker) for worker in peers):
                for worker in peers:
                    self._suspicions.forget(worker)

    def _choose(self, fruitless: set[Want]) -> list[_Asked]:
        """Batches for workers that have room, as many as are worth claiming at once.

        fruitless: kinds of worker for which there is nothing more now, which are added to it
        """
        now, number, trials = time.monotonic(), itertools.count(), 0
        free = [
            (len(self._holding[worker]), next(number), worker)
            for worker in self._holding
            if len(self._holding[worker]) < self._executor.depth
            and worker not in self._leaving
            and not self._suspicions.aside(worker)
        ]
        heapq.heapify(free)
        asked: list[_Asked] = []
        chosen: set[str] = set()
        while free and trials < TRIALS_AT_ONCE:
            load, _, worker = heapq.heappop(free)
            kind = Want.of(self._cards[worker])
            if kind in fruitless or any(
                self._holding.get(rival) or rival in chosen for rival in self._executor.rivals(worker)
            ):
                continue
            job, batch = self._next_batch(worker, now)
            if job is None or batch is None:
                fruitless.add(kind)
                continue
            asked.append(_Asked(job, batch, worker))
            chosen.add(worker)
            self._shares.reserve(job.sweep.user)
            trials += len(batch.trials)
            if load + 1 < self._executor.depth:
                heapq.heappush(free, (load + 1, next(number), worker))
        return asked

    def _next_batch(self, worker: str, now: float) -> tuple[Job | None, Batch | None]:
        for users in self._peers:
            for user in self._shares.order(users, now):
                for job in users[user]:
                    batch = patiently(job.next_batch, self._cards[worker])
                    if batch is not None:
                        return job, batch
        return None, None

    def _hand_out(self, asked: Sequence[_Asked]) -> None:
        """Claim what was chosen, as far as nobody else did, and hand it to the workers."""
        claims = [
            Claim(one.job.sweep.id, tuple(trial.trial for trial in one.batch.trials), one.worker) for one in asked
        ]
        leases = patiently(self._store.claim_all, claims, self._lease_seconds, self._orchestrator)
        self._shares.release()
        for (job, batch, worker), lease in zip(asked, leases, strict=True):
            if lease is None:
                continue
            self._shares.begin(lease.attempt, job.sweep.user, time.monotonic())
            job.running[lease.attempt] = batch
            if not self._holding[worker]:
                self._head_since[worker] = time.monotonic()
            self._holding[worker].append(lease.attempt)
            self._executor.submit(worker, job.task(batch, lease, self._cards[worker].device))

    # -- taking back -------------------------------------------------------------------------------------------------

    def _handle_all(self, events: Sequence[Event]) -> None:
        """Take up what happened, in order; reports that came one after the other are stored together."""
        for finished, group in itertools.groupby(events, key=lambda event: isinstance(event, Finished)):
            if finished:
                self._take_all([event for event in group if isinstance(event, Finished)])
            else:
                for event in group:
                    self._handle(event)

    def _handle(self, event: Event) -> None:
        match event:
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

    def _let_rest(self, now: float) -> None:
        """End workers that have had nothing to do for long: as long as they are there, their machines stay."""
        for worker in [one for one in self._holding if self._idle_seconds(one, now) >= REST_SECONDS]:
            self._executor.dismiss(worker, for_good=False)
            patiently(self._store.set_worker_state, worker, "stopped")
            self._forget(worker)

    def _idle_seconds(self, worker: str, now: float) -> float:
        """For how long neither a worker nor those for whom it has to wait had anything to do."""
        together = [one for one in (worker, *self._executor.rivals(worker)) if one in self._holding]
        if any(self._holding[one] for one in together):
            return 0.0
        return now - max(self._head_since[one] for one in together)

    def _forget(self, worker: str) -> None:
        """A worker is gone."""
        self._holding.pop(worker, None)
        self._leaving.discard(worker)
        self._suspicions.forget(worker)

    def _take_all(self, events: Sequence[Finished]) -> None:
        """Store what workers sent back, and learn from it."""
        returned = [self._let_return(event) for event in events]
        for group in stored_together(returned, TRIALS_AT_ONCE):
            accepted = patiently(self._store.accept_all, [one.as_stored() for one in group])
            before = [job.progress for job in self._jobs]
            for one, became in zip(group, accepted, strict=True):
                self._note(one, became)
            for job, was in zip(self._jobs, before, strict=True):
                if job.progress is not was:
                    self._on_progress(job.progress)
        for one in returned:
            for suspect, verdict in self._suspicions.hear(one.worker, one.failed, one.done).items():
                self._judge(suspect, verdict)

    def _let_return(self, event: Finished) -> Returned:
        """A worker has sent back a batch: it holds one less, and may be a suspect now."""
        worker, report = event.worker, event.report
        self._charge(report.attempt, worker)
        held = self._holding.get(worker, deque())
        if report.attempt in held:  # a worker that was quarantined meanwhile holds nothing
            held.remove(report.attempt)
        self._head_since[worker] = time.monotonic()
        failed = frozenset(trial.trial for trial in report.trials if trial.outcome.metrics is None)
        done = frozenset(trial.trial for trial in report.trials) - failed
        others = bool(failed) and any(self._may_judge(other, worker) for other in self._holding)
        return Returned(worker, report, failed, done, self._suspicions.suspect(worker, failed, done, others=others))

    def _charge(self, attempt: int, worker: str) -> None:
        """An attempt is over: its user has had the worker for as long as it was the worker's first."""
        held, now = self._holding.get(worker), time.monotonic()
        seconds = now - self._head_since[worker] if held and held[0] == attempt else 0.0
        if (job := self._job_of(attempt)) is not None:
            job.charge(self._cards[worker].device, seconds)
        self._shares.end(attempt, seconds, now)

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

    def _note(self, returned: Returned, accepted: Accepted) -> None:
        """Tell the job, if it is still there, and its log what became of a report."""
        worker, report = returned.worker, returned.report
        job = self._job_of(report.attempt)
        if job is None:
            return
        batch = job.running.pop(report.attempt)
        if returned.suspected:
            job.hasten(batch, returned.failed)
        job.observe(batch, worker, report)
        job.count(accepted, time.monotonic() - self._started)
        log = self._queue.log(job.sweep.id)
        log.info("batch done", batch=report.attempt, worker=worker, done=accepted.done, failed=accepted.failed)
        positions = {trial.trial: trial.position for trial in batch.trials} if returned.failed else {}
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
        self._charge(attempt, worker)
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
        if (card is not None and self._welcome(card)) or self._holding or self._executor.scales:
            return  # where it scales, others are started as batches wait
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

    def _enforce_caps(self, now: float) -> None:
        """Pause sweeps that have used up what they may take of their workers, and have more to hand out."""
        if not any(job.policy.caps.limited for job in self._jobs):
            return
        running: dict[str, dict[str, float]] = {}
        for worker, held in self._holding.items():
            if held and (owner := self._job_of(held[0])) is not None:
                used = running.setdefault(owner.sweep.id, {})
                device = self._cards[worker].device
                used[device] = used.get(device, 0.0) + now - self._head_since[worker]
        for job in self._jobs:
            why = None if job.closed or job.exhausted else job.over_cap(running.get(job.sweep.id, {}))
            if why is not None:
                self._halt(job, why)

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


class _Asked(NamedTuple):
    """A batch that was chosen for a worker."""

    job: Job
    batch: Batch
    worker: str


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
