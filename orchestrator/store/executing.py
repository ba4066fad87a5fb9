"""Executing a sweep: leases with fencing tokens, results taken exactly once, retries, workers."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from orchestrator.store import schema
from orchestrator.store.base import StorePart, finish_trials, held_by, holders_of, insert_new, lease_trials
from orchestrator.store.clock import boot_id, is_dead, lease_now, process_start
from orchestrator.store.engine import reading
from orchestrator.store.many import add, among, given
from orchestrator.store.records import Accepted, AttemptReport, Claim, Lease, Pending, TrialResult, WaitingCell
from orchestrator.store.serving import note_event
from orchestrator.store.settling import Failures, settle
from orchestrator.store.states import SPLIT_REASONS, EventKind, TrialState

NOTHING_TOLD: Mapping[int, Collection[int]] = MappingProxyType({})


class Executing(StorePart):
    """The part of the store that leases trials and takes results."""

    def register_orchestrator(self) -> str:
        """Note this process as one that leases trials; its id."""
        identity = uuid.uuid4().hex
        with self.engine.begin() as connection:
            connection.execute(
                insert(schema.orchestrators).values(
                    id=identity,
                    host=socket.gethostname(),
                    boot=boot_id(),
                    pid=os.getpid(),
                    process_started=process_start(os.getpid()),
                    started=time.time(),
                )
            )
        return identity

    def register_worker(
        self,
        worker: str,
        hardware: str,
        record: dict[str, Any],
        *,
        executor: str,
        device: str,
        pid: int,
        agreement: dict[str, Any] | None = None,
    ) -> None:
        """Note a worker, the machine it runs on, and what its agreement probe found."""
        now = time.time()
        row = {"id": worker, "hardware": hardware, "executor": executor, "device": device, "pid": pid}
        row |= {"state": "ready", "started": now, "last_seen": now, "agreement": agreement}
        with self.engine.begin() as connection:
            connection.execute(
                insert_new(connection, schema.hardware), [{"id": hardware, "record": record, "first_seen": now}]
            )
            connection.execute(insert_new(connection, schema.workers), [row])

    def set_worker_state(self, worker: str, state: str) -> None:
        """Note that a worker is ready, refused, lost, quarantined or stopped."""
        columns = schema.workers.c
        with self.engine.begin() as connection:
            changed = connection.execute(
                update(schema.workers)
                .where(columns.id == worker, columns.state != state)
                .values(state=state, last_seen=time.time())
            ).rowcount
            if changed and state == "quarantined":
                note_event(connection, EventKind.QUARANTINED, worker=worker)

    def see_workers(self, workers: Sequence[str]) -> None:
        """Note that `workers` are there."""
        with self.engine.begin() as connection:
            connection.execute(
                update(schema.workers).where(schema.workers.c.id.in_(workers)).values(last_seen=time.time())
            )

    def retire_workers(self, workers: Sequence[str]) -> None:
        """Note that those of `workers` that are ready are no longer there."""
        columns = schema.workers.c
        with self.engine.begin() as connection:
            connection.execute(
                update(schema.workers)
                .where(columns.id.in_(workers), columns.state == "ready")
                .values(state="stopped", last_seen=time.time())
            )

    def pending(self, sweep: str, after: int, limit: int, last: int | None = None) -> list[Pending]:
        """Up to `limit` pending trials of `sweep` beyond position `after` (and up to `last`), in plan order."""
        links, trials = schema.sweep_trials.c, schema.trials.c
        query = (
            select(links.position, trials.id, trials.cell, trials.seed, trials.batch_limit)
            .join(schema.trials, trials.id == links.trial)
            .where(links.sweep == sweep, links.position > after, trials.state == TrialState.PENDING)
            .order_by(links.position)
            .limit(limit)
        )
        if last is not None:
            query = query.where(links.position <= last)
        with reading(self.engine) as connection:
            return [Pending(*row) for row in connection.execute(query)]

    def waiting_cells(self, sweep: str) -> list[WaitingCell]:
        """Cells of which trials of `sweep` are pending, by the position of the first."""
        links, trials = schema.sweep_trials.c, schema.trials.c
        first = func.min(links.position)
        query = (
            select(trials.cell, first, func.max(links.position), func.count())
            .join(schema.trials, trials.id == links.trial)
            .where(links.sweep == sweep, trials.state == TrialState.PENDING)
            .group_by(trials.cell)
            .order_by(first)
        )
        with reading(self.engine) as connection:
            return [WaitingCell(*row) for row in connection.execute(query)]

    def claim(
        self, sweep: str, trials: Sequence[int], worker: str, seconds: float, orchestrator: str | None = None
    ) -> Lease | None:
        """Lease those of `trials` that are still pending to one new attempt of `worker`; None if none are."""
        [lease] = self.claim_all([Claim(sweep, tuple(trials), worker)], seconds, orchestrator)
        return lease

    def claim_all(self, claims: Sequence[Claim], seconds: float, orchestrator: str | None = None) -> list[Lease | None]:
        """As `claim`, for several workers in one transaction: a lease for each of `claims`, in their order."""
        with self.engine.begin() as connection:
            attempts = _open_attempts(connection, claims, seconds, orchestrator)
            wanted: dict[int, int] = {}
            for attempt, claim in zip(attempts, claims, strict=True):
                for trial in claim.trials:
                    wanted.setdefault(trial, attempt)
            taken = lease_trials(connection, wanted)
            leases = [
                Lease(attempt, tuple(trial for trial in claim.trials if taken.get(trial) == attempt))
                for attempt, claim in zip(attempts, claims, strict=True)
            ]
            _note_leased(connection, taken)
            _correct_sizes(connection, claims, leases)
        return [lease if lease.trials else None for lease in leases]

    def renew(self, attempts: Sequence[int], seconds: float) -> set[int]:
        """Extend the leases of those of `attempts` that still hold one; these."""
        columns = schema.attempts.c
        with self.engine.begin() as connection:
            clock, now = lease_now(connection)
            kept = connection.execute(
                update(schema.attempts)
                .where(among(connection, columns.id, attempts), columns.state == "open")
                .values(lease_clock=clock, leased_until=now + seconds)
                .returning(columns.id)
            ).scalars()
            return set(kept)

    def accept(
        self,
        attempt: int,
        worker: str,
        results: Sequence[TrialResult],
        log: str | None = None,
        *,
        second_opinion: bool = False,
    ) -> Accepted:
        """Take an attempt's results if it still holds its lease; trials it says nothing about fail with `no_result`.

        With `second_opinion`, trials that fail get one more try whatever their budget: the worker may be at fault.
        """
        [accepted] = self.accept_all([AttemptReport(attempt, worker, tuple(results), log, second_opinion)])
        return accepted

    def accept_all(self, reports: Sequence[AttemptReport]) -> list[Accepted]:
        """As `accept`, for several attempts in one transaction: what became of each report, in their order."""
        with self.engine.begin() as connection:
            logs = {report.attempt: report.log for report in reversed(reports)}  # of two reports the first one counts
            told = {report.attempt: [one.trial for one in report.results] for report in reports}
            held = _close_attempts(connection, logs, "done", None, told)
            done: dict[int, int] = {}
            results: list[dict[str, Any]] = []
            failures: dict[int, Failures] = {}
            found = []
            for report in reports:
                mine = held.pop(report.attempt, None)
                fresh = {one.trial: one for one in report.results if mine is not None and one.trial in mine}
                good = [one for one in fresh.values() if one.metrics is not None]
                done |= dict.fromkeys((one.trial for one in good), report.attempt)
                results += [_result_row(report, one) for one in good]
                bad = {one.trial: _why(one) for one in fresh.values() if one.metrics is None}
                bad |= dict.fromkeys((mine or set()) - fresh.keys(), UNTOLD)
                if bad:
                    failures[report.attempt] = bad
                found.append(Accepted(len(good), 0, len(bad), len(report.results) - len(fresh)))
            if results:
                add(connection, schema.results, results)
                finish_trials(connection, done)
            _count_stale(connection, {one.attempt: was.stale for one, was in zip(reports, found, strict=True)})
            doubtful = {report.attempt for report in reports if report.second_opinion}
            # A worker that reports a timeout has measured that very trial; one that was killed for it has not.
            failed = settle(connection, failures, doubtful, SPLIT_REASONS - {"timeout"})
        return [_with_failed(was, failed.get(one.attempt, 0)) for one, was in zip(reports, found, strict=True)]

    def lose(self, attempt: int, reason: str, message: str = "", log: str | None = None) -> Accepted:
        """Close an attempt whose worker is gone: its trials wait again, or fail when their retries are spent."""
        with self.engine.begin() as connection:
            return _lose(connection, [attempt], reason, message, log)

    def lose_all(self, attempts: Sequence[int], reason: str, message: str = "") -> Accepted:
        """As `lose`, for several attempts in one transaction; what became of them together."""
        with self.engine.begin() as connection:
            return _lose(connection, attempts, reason, message)

    def expire(self) -> int:
        """Close attempts whose lease ran out, whose host was restarted, or whose orchestrator on this host died.

        An orchestrator that is known to be dead is not the trials' fault, however often it dies: no retry is spent.
        """
        columns = schema.attempts.c
        open_ones = select(columns.id).where(schema.is_open)
        with self.engine.begin() as connection:
            abandoned = open_ones.where(columns.orchestrator.in_(_dead_orchestrators(connection)))
            closed = list(connection.execute(abandoned).scalars())
            _lose(connection, closed, "preempted", "the process that held the lease died")
            clock, now = lease_now(connection)
            past = open_ones.where((columns.lease_clock != clock) | (columns.leased_until < now))
            over = list(connection.execute(past).scalars())
            _lose(connection, over, "worker_lost", "the lease ran out")
        return len(closed) + len(over)


def _why(result: TrialResult) -> tuple[str, str]:
    reason = result.reason or "user_error"
    peak = result.peak_memory_bytes
    told = (
        f"{result.message}\npeak memory {peak / 2**20:.0f} MiB"
        if reason == "out_of_memory" and peak
        else result.message
    )
    return reason, told


UNTOLD = ("no_result", "the worker reported nothing for this trial")


def _open_attempts(
    connection: Connection, claims: Sequence[Claim], seconds: float, orchestrator: str | None
) -> list[int]:
    """A new attempt for each of `claims`, under a lease of so many seconds."""
    clock, now = lease_now(connection)
    shared = {
        "orchestrator": orchestrator,
        "state": "open",
        "lease_clock": clock,
        "leased_until": now + seconds,
        "started": time.time(),
    }
    rows = [{"sweep": claim.sweep, "worker": claim.worker, "trials": len(claim.trials), **shared} for claim in claims]
    statement = insert(schema.attempts).returning(schema.attempts.c.id, sort_by_parameter_order=True)
    return list(connection.execute(statement, rows).scalars())


def _note_leased(connection: Connection, holders: Mapping[int, int]) -> None:
    """Note for good which trials attempts hold now."""
    held = given(connection, holders)
    rows = select(held.c.attempt, held.c.trial)
    connection.execute(insert(schema.attempt_trials).from_select(["attempt", "trial"], rows))


def _correct_sizes(connection: Connection, claims: Sequence[Claim], leases: Sequence[Lease]) -> None:
    """Some trials were taken by others meanwhile: set the attempts' sizes right, and drop those that have none."""
    columns = schema.attempts.c
    for claim, lease in zip(claims, leases, strict=True):
        mine = columns.id == lease.attempt
        if not lease.trials:
            connection.execute(delete(schema.attempts).where(mine))
        elif len(lease.trials) < len(claim.trials):
            connection.execute(update(schema.attempts).where(mine).values(trials=len(lease.trials)))


def _close_attempts(
    connection: Connection,
    logs: Mapping[int, str | None],
    state: str,
    reason: str | None,
    told: Mapping[int, Collection[int]] = NOTHING_TOLD,
) -> dict[int, set[int]]:
    """End those of the attempts (with the last lines of their workers) that are open; these, with what they hold.

    Those that were closed before are not among them: their results come too late. `told` are trials that they say they
    hold: these are looked up first, and others only of attempts that have more.
    """
    columns = schema.attempts.c
    closed = connection.execute(
        update(schema.attempts)
        .where(among(connection, columns.id, logs), columns.state == "open")
        .values(state=state, reason=reason, finished=time.time())
        .returning(columns.id, columns.trials)
    )
    sizes: dict[int, int] = dict(closed.all())
    held: dict[int, set[int]] = {attempt: set() for attempt in sizes}
    lines = [{"closed": attempt, "log": logs[attempt]} for attempt in held if logs[attempt] is not None]
    if lines:
        connection.execute(update(schema.attempts).where(columns.id == bindparam("closed")), lines)
    named = [trial for attempt in held for trial in told.get(attempt, ())]
    for attempt, trial in connection.execute(holders_of(connection, named)):
        if attempt in held:
            held[attempt].add(trial)
    more = [attempt for attempt, size in sizes.items() if len(held[attempt]) < size]
    if more:
        for attempt, trial in connection.execute(held_by(connection, more)):
            held[attempt].add(trial)
    return held


def _result_row(report: AttemptReport, result: TrialResult) -> dict[str, Any]:
    return {
        "trial": result.trial,
        "attempt": report.attempt,
        "worker": report.worker,
        "metrics": result.metrics,
        "started": result.started,
        "finished": result.finished,
        "wall_seconds": result.wall_seconds,
        "cpu_seconds": result.cpu_seconds,
        "peak_memory_bytes": result.peak_memory_bytes,
        "series": result.series or None,
        "energy_joules": result.energy_joules,
        "energy_reason": result.energy_reason,
        "device_memory_bytes": result.device_memory_bytes,
        "own_seconds": result.own_seconds,
    }


def _count_stale(connection: Connection, stale: Mapping[int, int]) -> None:
    columns = schema.attempts.c
    for attempt, count in stale.items():
        if count:
            connection.execute(update(schema.attempts).where(columns.id == attempt).values(stale=columns.stale + count))


def _with_failed(accepted: Accepted, failed: int) -> Accepted:
    return replace(accepted, failed=failed, retried=accepted.retried - failed)


def _lose(
    connection: Connection, attempts: Sequence[int], reason: str, message: str, log: str | None = None
) -> Accepted:
    held = _close_attempts(connection, dict.fromkeys(attempts, log or message), "lost", reason)
    failures = {attempt: dict.fromkeys(trials, (reason, message)) for attempt, trials in held.items() if trials}
    failed = sum(settle(connection, failures).values())
    return Accepted(failed=failed, retried=sum(map(len, failures.values())) - failed)


def _dead_orchestrators(connection: Connection) -> list[str]:
    """Orchestrators with open attempts whose processes are gone."""
    attempts, known = schema.attempts.c, schema.orchestrators.c
    query = select(known.id, known.host, known.boot, known.pid, known.process_started).where(
        known.id.in_(select(attempts.orchestrator).where(schema.is_open))
    )
    return [identity for identity, *process in connection.execute(query) if is_dead(*process)]
