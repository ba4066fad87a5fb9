"""The store: every question slotsweep asks its database, and every change it makes, each in one transaction.

Contract (held by tests on every backend):
- `submit` links a sweep to one trial row a key: a finished or pending row of the same key is shared, never doubled.
- `claim` leases pending trials to one attempt; a trial is leased to at most one attempt at a time.
- `accept` takes an attempt's results once, only while it holds its lease; late or repeated ones change nothing.
- `lose` and `expire` give a dead attempt's trials back, or fail them when their retries are spent.
- An outcome and the notice that the tracker must hear of it are written in the same transaction.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Table, func, insert, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite

from orchestrator.code_snapshot import CodeSnapshot
from orchestrator.errors import StoreError
from orchestrator.store import schema
from orchestrator.store.clock import lease_now
from orchestrator.store.engine import ensure_schema, open_engine, reading
from orchestrator.store.records import (
    Accepted,
    CellRow,
    Counts,
    Lease,
    NewSweep,
    Notice,
    Pending,
    Submitted,
    SweepRow,
    TrialResult,
)
from orchestrator.store.states import CODE_REASONS, ENDED, FREE_REASONS, SWEEP_CHANGES, SweepState, TrialState

CHUNK = 1000
CODE_RETRIES = 0
INFRASTRUCTURE_RETRIES = 3

T = TypeVar("T")


class Store:
    """One database. Methods open their own connections; a store may be used from several threads and processes."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @classmethod
    def open(cls, url: str) -> Store:
        """Open the database at `url`, creating its tables if it is empty. Raises StoreError if it cannot be used."""
        engine = open_engine(url)
        ensure_schema(engine)
        return cls(engine)

    def close(self) -> None:
        """Give back every connection."""
        self.engine.dispose()

    # -- submitting -------------------------------------------------------------------------------------------------

    def submit(self, sweep: NewSweep, trials: Iterable[tuple[CellRow, int, str]]) -> Submitted:
        """Store a sweep (state queued) and its trials, given as (cell, seed, key) in plan order."""
        identity = uuid.uuid4().hex[:10]
        total = reused = 0
        with self.engine.begin() as connection:
            connection.execute(_insert_new(connection, schema.code).values(asdict(sweep.code)))
            connection.execute(
                insert(schema.sweeps),
                asdict(sweep)
                | {
                    "code": sweep.code.digest,
                    "id": identity,
                    "state": SweepState.QUEUED,
                    "trials": 0,
                    "reused": 0,
                    "created": time.time(),
                },
            )
            cells: dict[str, int] = {}
            for chunk in _chunks(trials, CHUNK):
                self._store_cells(connection, {cell.digest: cell for cell, _, _ in chunk}, cells)
                rows = [(cells[cell.digest], seed, key) for cell, seed, key in chunk]
                found = self._link_trials(connection, identity, total, rows, sweep.use_cache)
                total += len(rows)
                reused += found
            connection.execute(
                update(schema.sweeps).where(schema.sweeps.c.id == identity).values(trials=total, reused=reused)
            )
            _notify_sweep(connection, identity)
        return Submitted(identity, total, reused)

    def _store_cells(self, connection: Connection, chunk: dict[str, CellRow], known: dict[str, int]) -> None:
        new = [cell for digest, cell in chunk.items() if digest not in known]
        if not new:
            return
        connection.execute(_insert_new(connection, schema.cells), [asdict(cell) for cell in new])
        columns = schema.cells.c
        rows = connection.execute(select(columns.digest, columns.id).where(columns.digest.in_([c.digest for c in new])))
        known.update((digest, identity) for digest, identity in rows)

    def _link_trials(
        self, connection: Connection, sweep: str, offset: int, rows: list[tuple[int, int, str]], use_cache: bool
    ) -> int:
        """Link `rows` (cell, seed, key) to `sweep` from position `offset` on; the number that were done already."""
        keys = [key for _, _, key in rows]
        before = _latest_generations(connection, keys)
        shareable = {TrialState.DONE, TrialState.PENDING, TrialState.LEASED} if use_cache else set()
        new = []
        for cell, seed, key in rows:
            generation, state = before[key][1:] if key in before else (0, None)
            if state not in shareable:
                new.append(
                    {"key": key, "generation": generation + 1, "cell": cell, "seed": seed, "state": TrialState.PENDING}
                )
        if new:
            connection.execute(_insert_new(connection, schema.trials), new)
        after = _latest_generations(connection, keys) if new else before
        links = [
            {
                "sweep": sweep,
                "position": offset + index,
                "trial": after[key][0],
                "reused": after[key][2] == TrialState.DONE,
            }
            for index, key in enumerate(keys)
        ]
        connection.execute(insert(schema.sweep_trials), links)
        done = [{"sweep": sweep, "trial": link["trial"], "reused": True} for link in links if link["reused"]]
        if done:
            connection.execute(insert(schema.outbox), done)
        return len(done)

    def count_done(self, keys: Iterable[str]) -> int:
        """How many of `keys` have a finished trial as their latest generation."""
        with reading(self.engine) as connection:
            return sum(
                state == TrialState.DONE
                for chunk in _chunks(keys, CHUNK)
                for _, _, state in _latest_generations(connection, chunk).values()
            )

    # -- sweeps -----------------------------------------------------------------------------------------------------

    def sweep(self, identity: str) -> SweepRow:
        """The sweep whose id is or begins with `identity`. Raises StoreError if none or several do."""
        columns = schema.sweeps.c
        with reading(self.engine) as connection:
            prefix = identity.replace("%", "").replace("_", "")
            rows = (
                connection.execute(select(schema.sweeps).where(columns.id.like(f"{prefix}%")).limit(2)).mappings().all()
            )
            if not rows or not prefix:
                raise StoreError(f"there is no sweep `{identity}`: `slotsweep status` lists them")
            if len(rows) > 1:
                raise StoreError(f"several sweeps begin with `{identity}`: write more of the id")
            return _sweep_row(rows[0], _counts(connection, rows[0]["id"]))

    def sweeps(self) -> list[SweepRow]:
        """All sweeps, newest first."""
        with reading(self.engine) as connection:
            rows = connection.execute(select(schema.sweeps).order_by(schema.sweeps.c.created.desc())).mappings().all()
            links, trials = schema.sweep_trials.c, schema.trials.c
            grouped = connection.execute(
                select(links.sweep, trials.state, func.count())
                .join(schema.trials, trials.id == links.trial)
                .group_by(links.sweep, trials.state)
            ).all()
        counts: dict[str, dict[str, int]] = {}
        for sweep, state, count in grouped:
            counts.setdefault(sweep, {})[state] = count
        return [_sweep_row(row, Counts(**counts.get(row["id"], {}))) for row in rows]

    def code(self, sweep: SweepRow) -> CodeSnapshot:
        """The code that was pinned when the sweep was submitted."""
        query = select(schema.code.c.archive).where(schema.code.c.digest == sweep.code)
        with reading(self.engine) as connection:
            return CodeSnapshot(sweep.code, bytes(connection.execute(query).scalar_one()))

    def counts(self, sweep: str) -> Counts:
        """The sweep's trials by state."""
        with reading(self.engine) as connection:
            return _counts(connection, sweep)

    def set_sweep_state(self, sweep: str, state: SweepState, *, report: str | None = None) -> bool:
        """Change a sweep's state if that change is allowed; False (and nothing changed) if it is not."""
        allowed = [before for before, after in SWEEP_CHANGES.items() if state in after]
        values: dict[str, Any] = {"state": state}
        if state == SweepState.RUNNING:
            values |= {"started": func.coalesce(schema.sweeps.c.started, time.time()), "finished": None}
        if state in ENDED:
            values["finished"] = time.time()
        if report is not None:
            values["report"] = report
        with self.engine.begin() as connection:
            changed = connection.execute(
                update(schema.sweeps)
                .where(schema.sweeps.c.id == sweep, schema.sweeps.c.state.in_(allowed))
                .values(**values)
            ).rowcount
            if changed:
                _notify_sweep(connection, sweep)
        return bool(changed)

    def set_report(self, sweep: str, path: str) -> None:
        """Note where the sweep's report lies."""
        with self.engine.begin() as connection:
            connection.execute(update(schema.sweeps).where(schema.sweeps.c.id == sweep).values(report=path))
            _notify_sweep(connection, sweep)

    # -- executing --------------------------------------------------------------------------------------------------

    def pending(self, sweep: str, after: int, limit: int) -> list[Pending]:
        """Up to `limit` pending trials of `sweep` beyond position `after`, in plan order."""
        links, trials = schema.sweep_trials.c, schema.trials.c
        query = (
            select(links.position, trials.id, trials.cell, trials.seed)
            .join(schema.trials, trials.id == links.trial)
            .where(links.sweep == sweep, links.position > after, trials.state == TrialState.PENDING)
            .order_by(links.position)
            .limit(limit)
        )
        with reading(self.engine) as connection:
            return [Pending(*row) for row in connection.execute(query)]

    def cells(self, sweep: str) -> dict[int, CellRow]:
        """The sweep's cells by row id."""
        links, trials = schema.sweep_trials.c, schema.trials.c
        wanted = select(trials.cell).join(schema.sweep_trials, trials.id == links.trial).where(links.sweep == sweep)
        with reading(self.engine) as connection:
            rows = connection.execute(select(schema.cells).where(schema.cells.c.id.in_(wanted))).mappings()
            return {row["id"]: CellRow(**{k: v for k, v in row.items() if k != "id"}) for row in rows}

    def claim(self, sweep: str, trials: Sequence[int], worker: str, seconds: float) -> Lease | None:
        """Lease those of `trials` that are still pending to one new attempt of `worker`; None if none are."""
        columns = schema.trials.c
        with self.engine.begin() as connection:
            clock, now = lease_now(connection)
            attempt = connection.execute(
                insert(schema.attempts).values(
                    sweep=sweep,
                    worker=worker,
                    state="open",
                    trials=len(trials),
                    lease_clock=clock,
                    leased_until=now + seconds,
                    started=time.time(),
                )
            ).inserted_primary_key[0]  # type: ignore[index]
            taken: list[int] = []
            for chunk in _chunks(trials, CHUNK):
                taken += connection.execute(
                    update(schema.trials)
                    .where(columns.id.in_(chunk), columns.state == TrialState.PENDING)
                    .values(state=TrialState.LEASED, attempt=attempt, attempts=columns.attempts + 1)
                    .returning(columns.id)
                ).scalars()
            if not taken:
                connection.rollback()
                return None
            connection.execute(
                insert(schema.attempt_trials), [{"attempt": attempt, "trial": trial} for trial in sorted(taken)]
            )
        kept = set(taken)
        return Lease(attempt, tuple(trial for trial in trials if trial in kept))

    def renew(self, attempts: Sequence[int], seconds: float) -> None:
        """Extend the leases of those of `attempts` that still hold one."""
        columns = schema.attempts.c
        with self.engine.begin() as connection:
            clock, now = lease_now(connection)
            connection.execute(
                update(schema.attempts)
                .where(columns.id.in_(attempts), columns.state == "open")
                .values(lease_clock=clock, leased_until=now + seconds)
            )

    def accept(self, attempt: int, worker: str, results: Sequence[TrialResult], log: str | None = None) -> Accepted:
        """Take an attempt's results if it still holds its lease; trials it says nothing about fail with `no_result`."""
        with self.engine.begin() as connection:
            if not _close_attempt(connection, attempt, "done", None, log):
                return Accepted(stale=len(results))
            held = set(
                connection.execute(select(schema.trials.c.id).where(schema.trials.c.attempt == attempt)).scalars()
            )
            fresh = {result.trial: result for result in results if result.trial in held}
            done = [result for result in fresh.values() if result.metrics is not None]
            if done:
                self._store_results(connection, attempt, worker, done)
            failures = {
                trial: (fresh[trial].reason or "user_error", fresh[trial].message)
                for trial in fresh
                if fresh[trial].metrics is None
            }
            failures |= dict.fromkeys(held - fresh.keys(), ("no_result", "the worker reported nothing for this trial"))
            failed = _settle_failures(connection, attempt, failures)
            return Accepted(len(done), failed, len(failures) - failed, len(results) - len(fresh))

    def _store_results(self, connection: Connection, attempt: int, worker: str, done: list[TrialResult]) -> None:
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
                }
                for result in done
            ],
        )
        for chunk in _chunks((result.trial for result in done), CHUNK):
            connection.execute(
                update(schema.trials)
                .where(schema.trials.c.id.in_(chunk), schema.trials.c.attempt == attempt)
                .values(state=TrialState.DONE, attempt=None, reason=None, message=None)
            )
            _notify_trials(connection, chunk)

    def lose(self, attempt: int, reason: str, message: str = "") -> Accepted:
        """Close an attempt whose worker is gone: its trials wait again, or fail when their retries are spent."""
        with self.engine.begin() as connection:
            return _lose(connection, attempt, reason, message)

    def expire(self) -> int:
        """Close every attempt whose lease ran out, or whose clock stopped with its host; the number closed."""
        columns = schema.attempts.c
        with self.engine.begin() as connection:
            clock, now = lease_now(connection)
            stale = connection.execute(
                select(columns.id).where(
                    columns.state == "open", (columns.leased_until < now) | (columns.lease_clock != clock)
                )
            ).scalars()
            attempts = list(stale)
            for attempt in attempts:
                _lose(connection, attempt, "worker_lost", "the lease ran out")
        return len(attempts)

    def cancel_pending(self, sweep: str) -> int:
        """Cancel the sweep's pending trials that no other unfinished sweep waits for; the number cancelled."""
        links, trials, sweeps = schema.sweep_trials, schema.trials, schema.sweeps
        mine = select(links.c.trial).where(links.c.sweep == sweep)
        wanted = (
            select(links.c.trial)
            .join(sweeps, sweeps.c.id == links.c.sweep)
            .where(links.c.sweep != sweep, sweeps.c.state.not_in(ENDED))
        )
        with self.engine.begin() as connection:
            cancelled = list(
                connection.execute(
                    update(trials)
                    .where(trials.c.state == TrialState.PENDING, trials.c.id.in_(mine), trials.c.id.not_in(wanted))
                    .values(state=TrialState.CANCELLED, reason="cancelled")
                    .returning(trials.c.id)
                ).scalars()
            )
            for chunk in _chunks(cancelled, CHUNK):
                _notify_trials(connection, chunk)
        return len(cancelled)

    # -- workers ----------------------------------------------------------------------------------------------------

    def register_worker(
        self, worker: str, hardware: str, record: dict[str, Any], *, executor: str, device: str, pid: int
    ) -> None:
        """Note a worker and the machine it runs on."""
        now = time.time()
        with self.engine.begin() as connection:
            connection.execute(
                _insert_new(connection, schema.hardware), [{"id": hardware, "record": record, "first_seen": now}]
            )
            connection.execute(
                _insert_new(connection, schema.workers),
                [
                    {
                        "id": worker,
                        "hardware": hardware,
                        "executor": executor,
                        "device": device,
                        "pid": pid,
                        "state": "ready",
                        "started": now,
                        "last_seen": now,
                    }
                ],
            )

    def hardware_of(self, sweep: str) -> list[dict[str, Any]]:
        """Records of the machines that computed the sweep's trials, in order of first use."""
        links, results, workers, hardware = schema.sweep_trials.c, schema.results.c, schema.workers.c, schema.hardware.c
        query = (
            select(hardware.record)
            .join(schema.workers, workers.hardware == hardware.id)
            .join(schema.results, results.worker == workers.id)
            .join(schema.sweep_trials, links.trial == results.trial)
            .where(links.sweep == sweep)
            .group_by(hardware.id, hardware.first_seen)
            .order_by(hardware.first_seen)
            .with_only_columns(hardware.id)
        )
        with reading(self.engine) as connection:
            identities = list(connection.execute(query).scalars())
            rows = connection.execute(
                select(schema.hardware.c.id, schema.hardware.c.record).where(schema.hardware.c.id.in_(identities))
            )
            records = dict(rows.all())
        return [records[identity] for identity in identities]

    # -- reading results --------------------------------------------------------------------------------------------

    def trial_rows(self, sweep: str, trials: Sequence[int] | None = None) -> Iterator[dict[str, Any]]:
        """The sweep's trials in plan order (or those of `trials`), each with its cell, result and machine."""
        links = schema.sweep_trials
        query = (
            select(
                links.c.position,
                links.c.reused,
                schema.trials,
                schema.cells.c.kind,
                schema.cells.c.workload,
                schema.cells.c.mechanism,
                schema.cells.c.episodes,
                schema.cells.c.dtype,
                schema.cells.c.device,
                schema.cells.c.fingerprint,
                schema.results.c.metrics,
                schema.results.c.worker,
                schema.results.c.started,
                schema.results.c.finished,
                schema.results.c.wall_seconds,
                schema.results.c.cpu_seconds,
                schema.results.c.peak_memory_bytes,
                schema.workers.c.hardware,
            )
            .join(schema.trials, schema.trials.c.id == links.c.trial)
            .join(schema.cells, schema.cells.c.id == schema.trials.c.cell)
            .outerjoin(schema.results, schema.results.c.trial == schema.trials.c.id)
            .outerjoin(schema.workers, schema.workers.c.id == schema.results.c.worker)
            .where(links.c.sweep == sweep)
            .order_by(links.c.position)
        )
        if trials is not None:
            query = query.where(links.c.trial.in_(trials))
        with reading(self.engine) as connection:
            for row in connection.execute(query.execution_options(yield_per=CHUNK)).mappings():
                yield dict(row)

    def hardware_records(self) -> dict[str, dict[str, Any]]:
        """Every machine's record by id."""
        with reading(self.engine) as connection:
            rows = connection.execute(select(schema.hardware.c.id, schema.hardware.c.record))
            return dict(rows.all())

    def cell_times(self, limit: int) -> list[tuple[CellRow, float, int]]:
        """The `limit` newest cells with finished trials: the cell, mean wall seconds of a trial, number of trials."""
        query = (
            select(schema.cells, func.avg(schema.results.c.wall_seconds), func.count())
            .join(schema.trials, schema.trials.c.cell == schema.cells.c.id)
            .join(schema.results, schema.results.c.trial == schema.trials.c.id)
            .group_by(schema.cells.c.id)
            .order_by(schema.cells.c.id.desc())
            .limit(limit)
        )
        with reading(self.engine) as connection:
            return [(CellRow(*row[1:-2]), float(row[-2]), int(row[-1])) for row in connection.execute(query)]

    # -- the tracker's outbox ---------------------------------------------------------------------------------------

    def notices(self, sweep: str | None, limit: int) -> list[Notice]:
        """The oldest undelivered notices, of one sweep or of all."""
        columns, links = schema.outbox.c, schema.sweep_trials.c
        query = (
            select(columns.id, columns.sweep, columns.trial, links.position)
            .outerjoin(schema.sweep_trials, (links.sweep == columns.sweep) & (links.trial == columns.trial))
            .where(columns.delivered.is_(None))
        )
        if sweep is not None:
            query = query.where(columns.sweep == sweep)
        with reading(self.engine) as connection:
            return [Notice(*row) for row in connection.execute(query.order_by(columns.id).limit(limit))]

    def delivered(self, notices: Sequence[int]) -> None:
        """Note that the tracker has heard of `notices`."""
        with self.engine.begin() as connection:
            for chunk in _chunks(notices, CHUNK):
                connection.execute(
                    update(schema.outbox).where(schema.outbox.c.id.in_(chunk)).values(delivered=time.time())
                )

    def undelivered(self, sweep: str) -> int:
        """How many notices of `sweep` the tracker has not heard of."""
        columns = schema.outbox.c
        query = select(func.count()).where(columns.sweep == sweep, columns.delivered.is_(None))
        with reading(self.engine) as connection:
            return int(connection.execute(query).scalar_one())


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    chunk: list[T] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _insert_new(connection: Connection, table: Table) -> Any:
    """An INSERT that leaves rows alone that are there already."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table).on_conflict_do_nothing()


def _latest_generations(connection: Connection, keys: Sequence[str]) -> dict[str, tuple[int, int, str]]:
    """(trial row, generation, state) of the newest generation of each of `keys` that has one."""
    columns = schema.trials.c
    rows = connection.execute(
        select(columns.key, columns.id, columns.generation, columns.state)
        .where(columns.key.in_(keys))
        .order_by(columns.generation)
    )
    return {key: (identity, generation, state) for key, identity, generation, state in rows}


def _counts(connection: Connection, sweep: str) -> Counts:
    links, trials = schema.sweep_trials.c, schema.trials.c
    rows = connection.execute(
        select(trials.state, func.count())
        .join(schema.sweep_trials, trials.id == links.trial)
        .where(links.sweep == sweep)
        .group_by(trials.state)
    ).all()
    return Counts(**dict(rows))


def _sweep_row(row: Any, counts: Counts) -> SweepRow:
    return SweepRow(**row, counts=counts)


def _notify_sweep(connection: Connection, sweep: str) -> None:
    connection.execute(insert(schema.outbox).values(sweep=sweep, trial=None, reused=False))


def _notify_trials(connection: Connection, trials: Sequence[int]) -> None:
    """One notice of each trial's outcome for each sweep that asked for it."""
    links = schema.sweep_trials.c
    connection.execute(
        insert(schema.outbox).from_select(
            ["sweep", "trial", "reused"],
            select(links.sweep, links.trial, literal(False)).where(links.trial.in_(trials)).order_by(links.trial),
        )
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


def _lose(connection: Connection, attempt: int, reason: str, message: str) -> Accepted:
    if not _close_attempt(connection, attempt, "lost", reason, message):
        return Accepted()
    held = connection.execute(select(schema.trials.c.id).where(schema.trials.c.attempt == attempt)).scalars()
    failures = dict.fromkeys(held, (reason, message))
    failed = _settle_failures(connection, attempt, failures)
    return Accepted(failed=failed, retried=len(failures) - failed)


def _settle_failures(connection: Connection, attempt: int, failures: dict[int, tuple[str, str]]) -> int:
    """Send failed trials back to pending while they have retries left, else fail them; the number failed for good."""
    columns = schema.trials.c
    failed: list[int] = []
    for trial, (reason, message) in failures.items():
        values: dict[str, Any] = {"attempt": None, "reason": reason, "message": message, "state": TrialState.PENDING}
        if reason not in FREE_REASONS:
            counter = columns.code_failures if reason in CODE_REASONS else columns.infrastructure_failures
            retries = CODE_RETRIES if reason in CODE_REASONS else INFRASTRUCTURE_RETRIES
            values[counter.name] = counter + 1
            if connection.execute(select(counter).where(columns.id == trial)).scalar_one() >= retries:
                values["state"] = TrialState.FAILED
                failed.append(trial)
        connection.execute(update(schema.trials).where(columns.id == trial, columns.attempt == attempt).values(values))
    for chunk in _chunks(failed, CHUNK):
        _notify_trials(connection, chunk)
    return len(failed)
