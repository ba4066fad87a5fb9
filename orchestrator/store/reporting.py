"""Reading what came back: trials with their results, machines, and what trials cost so far."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, FromClause, case, func, select, text

from orchestrator.errors import StoreError
from orchestrator.store import costs, schema
from orchestrator.store.base import StorePart
from orchestrator.store.chunks import CHUNK
from orchestrator.store.engine import reading
from orchestrator.store.records import AttemptRow, CellCost, CellRow, CrewSeen, RunCost, StoredTrial, StreamCost
from orchestrator.store.states import TrialState


class Reporting(StorePart):
    """The part of the store that reports are made from."""

    def hardware_of(self, sweep: str) -> list[dict[str, Any]]:
        """Records of the machines that computed the sweep's trials, or failed to, in order of first use."""
        links, workers, hardware = schema.sweep_trials.c, schema.workers.c, schema.hardware.c
        query = (
            select(hardware.id)
            .select_from(schema.sweep_trials)
            .join(schema.trials, schema.trials.c.id == links.trial)
            .outerjoin(schema.results, schema.results.c.trial == links.trial)
            .join(schema.attempts, schema.attempts.c.id == _telling_attempt())
            .join(schema.workers, workers.id == schema.attempts.c.worker)
            .join(schema.hardware, hardware.id == workers.hardware)
            .where(links.sweep == sweep)
            .group_by(hardware.id, hardware.first_seen)
            .order_by(hardware.first_seen)
        )
        with reading(self.engine) as connection:
            identities = list(connection.execute(query).scalars())
            rows = connection.execute(
                select(schema.hardware.c.id, schema.hardware.c.record).where(schema.hardware.c.id.in_(identities))
            )
            records = dict(rows.all())
        return [records[identity] for identity in identities]

    def trial_rows(self, sweep: str, trials: Sequence[int] | None = None) -> Iterator[dict[str, Any]]:
        """The sweep's trials in plan order (or those of `trials`), each with its cell, result and machine.

        `device` is the class that computed a trial; as long as none has, what the trial asks for. Of a trial that
        ended without a result, machine, worker, batch and times are those of the last attempt at it; None: there was
        none.
        """
        links = schema.sweep_trials
        return self._rows(sweep, links.join(schema.trials, schema.trials.c.id == links.c.trial), trials)

    def replaced_rows(self, sweep: str, trials: Sequence[int]) -> Iterator[dict[str, Any]]:
        """As `trial_rows`, of those of `trials` in whose place the sweep has other generations of their keys now."""
        links, now, before = schema.sweep_trials, schema.trials.alias(), schema.trials
        others = (before.c.key == now.c.key) & (before.c.id != now.c.id)
        return self._rows(sweep, links.join(now, now.c.id == links.c.trial).join(before, others), trials)

    def _rows(self, sweep: str, source: FromClause, trials: Sequence[int] | None) -> Iterator[dict[str, Any]]:
        """Rows of the trials in `source`, which joins them to `sweep_trials` (all of the sweep's, or `trials`)."""
        links, results, attempts, workers = schema.sweep_trials, schema.results.c, schema.attempts.c, schema.workers.c
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
                func.coalesce(workers.device, schema.cells.c.device).label("device"),
                schema.cells.c.fingerprint,
                results.metrics,
                results.series,
                func.coalesce(results.worker, attempts.worker).label("worker"),
                func.coalesce(results.started, attempts.started).label("started"),
                func.coalesce(results.finished, attempts.finished).label("finished"),
                results.wall_seconds,
                results.cpu_seconds,
                results.peak_memory_bytes,
                results.device_memory_bytes,
                results.energy_joules,
                results.energy_reason,
                attempts.trials.label("batch"),
                workers.hardware,
            )
            .select_from(source)
            .join(schema.cells, schema.cells.c.id == schema.trials.c.cell)
            .outerjoin(schema.results, results.trial == schema.trials.c.id)
            .outerjoin(schema.attempts, attempts.id == _telling_attempt())
            .outerjoin(schema.workers, workers.id == func.coalesce(results.worker, attempts.worker))
            .where(links.c.sweep == sweep)
            .order_by(links.c.position)
        )
        if trials is not None:
            query = query.where(schema.trials.c.id.in_(trials))
        with reading(self.engine) as connection:
            for row in connection.execute(query.execution_options(yield_per=CHUNK)).mappings():
                yield dict(row)

    def trial(self, key: str) -> StoredTrial:
        """The newest generation, a finished one if there is any, of the trial whose key is or begins with `key`.

        Raises StoreError if no trial's does, or several'.
        """
        trials, cells, links = schema.trials.c, schema.cells, schema.sweep_trials.c
        prefix = key.replace("%", "").replace("_", "")
        matching = select(trials.key).where(trials.key.like(f"{prefix}%")).distinct().limit(2)
        query = (
            select(schema.trials, schema.results.c.metrics, schema.workers.c.device, links.sweep)
            .outerjoin(schema.results, schema.results.c.trial == trials.id)
            .outerjoin(schema.workers, schema.workers.c.id == schema.results.c.worker)
            .join(schema.sweep_trials, links.trial == trials.id)
            .order_by((trials.state == TrialState.DONE).desc(), trials.generation.desc(), links.sweep)
            .limit(1)
        )
        with reading(self.engine) as connection:
            keys = list(connection.execute(matching).scalars()) if prefix else []
            if not keys:
                raise StoreError(f"there is no trial `{key}`: `slotsweep results SWEEP --format csv` lists their keys")
            if len(keys) > 1:
                raise StoreError(f"several trials begin with `{key}`: write more of the key")
            row = connection.execute(query.where(trials.key == keys[0])).mappings().one()
            cell = connection.execute(select(cells).where(cells.c.id == row["cell"])).mappings().one()
        return StoredTrial(
            key=row["key"],
            sweep=row["sweep"],
            cell=CellRow(**{name: value for name, value in cell.items() if name != "id"}),
            seed=row["seed"],
            state=row["state"],
            reason=row["reason"],
            device=row["device"],
            metrics=row["metrics"],
        )

    def agreements(self) -> dict[str, dict[str, Any] | None]:
        """What every worker's agreement probe found, by its id; None where none was made."""
        with reading(self.engine) as connection:
            rows = connection.execute(select(schema.workers.c.id, schema.workers.c.agreement))
            return dict(rows.all())

    def hardware_records(self) -> dict[str, dict[str, Any]]:
        """Every machine's record by id."""
        with reading(self.engine) as connection:
            rows = connection.execute(select(schema.hardware.c.id, schema.hardware.c.record))
            return dict(rows.all())

    def cell_costs(self, mechanisms: Collection[str], most: int) -> list[CellCost]:
        """As `orchestrator.store.costs.cell_costs`."""
        return costs.cell_costs(self._run, mechanisms, most)

    def stream_costs(self, most: int) -> list[StreamCost]:
        """As `orchestrator.store.costs.stream_costs`."""
        return costs.stream_costs(self._run, most)

    def runs(self, most: int) -> list[RunCost]:
        """As `orchestrator.store.costs.runs`."""
        return costs.runs(self._run, most)

    def crew_seen(self) -> list[CrewSeen]:
        """As `orchestrator.store.costs.crew_seen`."""
        return costs.crew_seen(self._run)

    def worker_seconds(self, sweep: str) -> dict[str, float]:
        """As `orchestrator.store.costs.worker_seconds`, of a sweep (an id)."""
        return costs.worker_seconds(self._run, sweep)

    def _run(self, query: str, parameters: dict[str, Any]) -> list[Sequence[Any]]:
        with reading(self.engine) as connection:
            return [tuple(row) for row in connection.execute(text(query), parameters)]

    def attempts_of(self, trial: int) -> list[AttemptRow]:
        """The history of a trial (a row id): every attempt at it, oldest first."""
        attempts, links = schema.attempts.c, schema.attempt_trials.c
        query = (
            select(
                attempts.id, attempts.worker, attempts.state, attempts.reason, attempts.trials, attempts.stale,
                attempts.started, attempts.finished, attempts.log,
            )
            .join(schema.attempt_trials, links.attempt == attempts.id)
            .where(links.trial == trial)
            .order_by(attempts.id)
        )  # fmt: skip
        with reading(self.engine) as connection:
            return [AttemptRow(*row) for row in connection.execute(query)]


def _telling_attempt() -> ColumnElement[int]:
    """Of a joined trial and its result, if it has one: the attempt that made it; if it ended without, the last one."""
    trials, results, links = schema.trials.c, schema.results.c, schema.attempt_trials.c
    last = select(func.max(links.attempt)).where(links.trial == trials.id).correlate(schema.trials).scalar_subquery()
    ended = trials.state.in_((TrialState.FAILED, TrialState.CANCELLED))
    return case((results.attempt.is_not(None), results.attempt), (ended, last))
