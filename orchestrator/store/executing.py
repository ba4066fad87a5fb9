"""Executing a sweep: leases with fencing tokens, results taken exactly once, retries, workers."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from orchestrator.store import schema
from orchestrator.store.base import StorePart, change_trials, insert_new
from orchestrator.store.clock import boot_id, is_dead, lease_now, process_start
from orchestrator.store.engine import reading
from orchestrator.store.records import Accepted, Lease, Pending, TrialResult, WaitingCell
from orchestrator.store.rules import TrialChange
from orchestrator.store.states import CODE_REASONS, FREE_REASONS, SPLIT_REASONS, TrialState

Failures = dict[int, tuple[str, str]]
"""Why trials failed: trial row -> (reason, message)."""


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
        with self.engine.begin() as connection:
            connection.execute(
                update(schema.workers).where(schema.workers.c.id == worker).values(state=state, last_seen=time.time())
            )

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

    def pending(self, sweep: str, after: int, limit: int) -> list[Pending]:
        """Up to `limit` pending trials of `sweep` beyond position `after`, in plan order."""
        links, trials = schema.sweep_trials.c, schema.trials.c
        query = (
            select(links.position, trials.id, trials.cell, trials.seed, trials.batch_limit)
            .join(schema.trials, trials.id == links.trial)
            .where(links.sweep == sweep, links.position > after, trials.state == TrialState.PENDING)
            .order_by(links.position)
            .limit(limit)
        )
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
        columns = schema.trials.c
        with self.engine.begin() as connection:
            clock, now = lease_now(connection)
            attempt = connection.execute(
                insert(schema.attempts).values(
                    sweep=sweep,
                    worker=worker,
                    orchestrator=orchestrator,
                    state="open",
                    trials=len(trials),
                    lease_clock=clock,
                    leased_until=now + seconds,
                    started=time.time(),
                )
            ).inserted_primary_key[0]  # type: ignore[index]
            taken = change_trials(
                connection,
                trials,
                TrialChange(TrialState.LEASED),
                {"attempt": attempt, "attempts": columns.attempts + 1, "message": None},
            )
            if not taken:
                connection.rollback()
                return None
            connection.execute(
                insert(schema.attempt_trials), [{"attempt": attempt, "trial": trial} for trial in sorted(taken)]
            )
            if len(taken) < len(trials):
                connection.execute(
                    update(schema.attempts).where(schema.attempts.c.id == attempt).values(trials=len(taken))
                )
        kept = set(taken)
        return Lease(attempt, tuple(trial for trial in trials if trial in kept))

    def renew(self, attempts: Sequence[int], seconds: float) -> set[int]:
        """Extend the leases of those of `attempts` that still hold one; these."""
        columns = schema.attempts.c
        with self.engine.begin() as connection:
            clock, now = lease_now(connection)
            kept = connection.execute(
                update(schema.attempts)
                .where(columns.id.in_(attempts), columns.state == "open")
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
        with self.engine.begin() as connection:
            if not _close_attempt(connection, attempt, "done", None, log):
                _count_stale(connection, attempt, len(results))
                return Accepted(stale=len(results))
            held = _held_by(connection, attempt)
            fresh = {result.trial: result for result in results if result.trial in held}
            done = [result for result in fresh.values() if result.metrics is not None]
            if done:
                _store_results(connection, attempt, worker, done)
                change_trials(
                    connection,
                    [result.trial for result in done],
                    TrialChange(TrialState.DONE, holder=attempt),
                    {"message": None},
                )
            failures = {r.trial: _why(r) for r in fresh.values() if r.metrics is None}
            failures |= dict.fromkeys(held - fresh.keys(), ("no_result", "the worker reported nothing for this trial"))
            # A worker that reports a timeout has measured that very trial; one that was killed for it has not.
            failed = _settle(connection, attempt, failures, int(second_opinion), SPLIT_REASONS - {"timeout"})
            stale = len(results) - len(fresh)
            _count_stale(connection, attempt, stale)
            return Accepted(len(done), failed, len(failures) - failed, stale)

    def lose(self, attempt: int, reason: str, message: str = "", log: str | None = None) -> Accepted:
        """Close an attempt whose worker is gone: its trials wait again, or fail when their retries are spent."""
        with self.engine.begin() as connection:
            return _lose(connection, attempt, reason, message, log)

    def expire(self) -> int:
        """Close attempts whose lease ran out, whose host was restarted, or whose orchestrator on this host died.

        An orchestrator that is known to be dead is not the trials' fault, however often it dies: no retry is spent.
        """
        attempts, orchestrators = schema.attempts.c, schema.orchestrators.c
        query = (
            select(
                attempts.id,
                attempts.lease_clock,
                attempts.leased_until,
                orchestrators.host,
                orchestrators.boot,
                orchestrators.pid,
                orchestrators.process_started,
            )
            .outerjoin(schema.orchestrators, orchestrators.id == attempts.orchestrator)
            .where(attempts.state == "open")
        )
        with self.engine.begin() as connection:
            clock, now = lease_now(connection)
            closed = 0
            for row in connection.execute(query).mappings().all():
                if row["pid"] is not None and is_dead(row["host"], row["boot"], row["pid"], row["process_started"]):
                    reason, why = "preempted", "the process that held the lease died"
                elif row["lease_clock"] != clock or row["leased_until"] < now:
                    reason, why = "worker_lost", "the lease ran out"
                else:
                    continue
                _lose(connection, row["id"], reason, why, None)
                closed += 1
        return closed


def _why(result: TrialResult) -> tuple[str, str]:
    reason = result.reason or "user_error"
    peak = result.peak_memory_bytes
    told = (
        f"{result.message}\npeak memory {peak / 2**20:.0f} MiB"
        if reason == "out_of_memory" and peak
        else result.message
    )
    return reason, told


def _held_by(connection: Connection, attempt: int) -> set[int]:
    return set(connection.execute(select(schema.trials.c.id).where(schema.trials.c.attempt == attempt)).scalars())


def _store_results(connection: Connection, attempt: int, worker: str, done: list[TrialResult]) -> None:
    connection.execute(
        insert(schema.results),
        [
            {
                "trial": result.trial,
                "attempt": attempt,
                "worker": worker,
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
            for result in done
        ],
    )


def _close_attempt(connection: Connection, attempt: int, state: str, reason: str | None, log: str | None) -> bool:
    """End an attempt that is open; False if it was closed before (its results come too late)."""
    columns = schema.attempts.c
    changed = connection.execute(
        update(schema.attempts)
        .where(columns.id == attempt, columns.state == "open")
        .values(state=state, reason=reason, log=log, finished=time.time())
    ).rowcount
    return bool(changed)


def _count_stale(connection: Connection, attempt: int, stale: int) -> None:
    if stale:
        columns = schema.attempts.c
        connection.execute(update(schema.attempts).where(columns.id == attempt).values(stale=columns.stale + stale))


def _lose(connection: Connection, attempt: int, reason: str, message: str, log: str | None) -> Accepted:
    if not _close_attempt(connection, attempt, "lost", reason, log or message):
        return Accepted()
    failures = dict.fromkeys(_held_by(connection, attempt), (reason, message))
    failed = _settle(connection, attempt, failures)
    return Accepted(failed=failed, retried=len(failures) - failed)


def _settle(
    connection: Connection,
    attempt: int,
    failures: Failures,
    extra: int = 0,
    split: frozenset[str] = SPLIT_REASONS,
) -> int:
    """Send failed trials back to pending while they have retries left, else fail them; the number failed for good.

    A batch that ran out of memory or time is halved first: its trials wait again, for smaller batches.
    """
    if not failures:
        return 0
    attempts, sweeps, columns = schema.attempts.c, schema.sweeps.c, schema.trials.c
    size, infrastructure_retries, code_retries = connection.execute(
        select(attempts.trials, sweeps.infrastructure_retries, sweeps.code_retries)
        .join(schema.sweeps, sweeps.id == attempts.sweep)
        .where(attempts.id == attempt)
    ).one()
    spent = {
        identity: (code, infrastructure)
        for identity, code, infrastructure in connection.execute(
            select(columns.id, columns.code_failures, columns.infrastructure_failures).where(columns.attempt == attempt)
        )
    }
    failed = 0
    for trial, (reason, message) in failures.items():
        values: dict[str, Any] = {"message": message}
        final = False
        if reason in split and size > 1:
            values["batch_limit"] = max(1, size // 2)
        elif reason in CODE_REASONS:
            values["code_failures"] = columns.code_failures + 1
            final = spent[trial][0] >= code_retries + extra
        elif reason not in FREE_REASONS:
            values["infrastructure_failures"] = columns.infrastructure_failures + 1
            final = spent[trial][1] >= infrastructure_retries
        to = TrialState.FAILED if final else TrialState.PENDING
        changed = change_trials(connection, [trial], TrialChange(to, attempt, reason), values)
        failed += len(changed) if final else 0
    return failed
