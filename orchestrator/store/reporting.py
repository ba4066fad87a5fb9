"""Reading what came back: trials with their results, machines, and what trials cost so far."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import func, select, text

from orchestrator.store import costs, schema
from orchestrator.store.base import StorePart
from orchestrator.store.chunks import CHUNK
from orchestrator.store.engine import reading
from orchestrator.store.records import AttemptRow, CellCost, CrewSeen, RunCost, StreamCost


class Reporting(StorePart):
    """The part of the store that reports are made from."""

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

    def trial_rows(self, sweep: str, trials: Sequence[int] | None = None) -> Iterator[dict[str, Any]]:
        """The sweep's trials in plan order (or those of `trials`), each with its cell, result and machine.

        `device` is the class that computed a trial; as long as none has, what the trial asks for.
        """
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
                func.coalesce(schema.workers.c.device, schema.cells.c.device).label("device"),
                schema.cells.c.fingerprint,
                schema.results.c.metrics,
                schema.results.c.series,
                schema.results.c.worker,
                schema.results.c.started,
                schema.results.c.finished,
                schema.results.c.wall_seconds,
                schema.results.c.cpu_seconds,
                schema.results.c.peak_memory_bytes,
                schema.results.c.device_memory_bytes,
                schema.results.c.energy_joules,
                schema.results.c.energy_reason,
                schema.attempts.c.trials.label("batch"),
                schema.workers.c.hardware,
            )
            .join(schema.trials, schema.trials.c.id == links.c.trial)
            .join(schema.cells, schema.cells.c.id == schema.trials.c.cell)
            .outerjoin(schema.results, schema.results.c.trial == schema.trials.c.id)
            .outerjoin(schema.attempts, schema.attempts.c.id == schema.results.c.attempt)
            .outerjoin(schema.workers, schema.workers.c.id == schema.results.c.worker)
            .where(links.c.sweep == sweep)
            .order_by(links.c.position)
        )
        if trials is not None:
            query = query.where(links.c.trial.in_(trials))
        with reading(self.engine) as connection:
            for row in connection.execute(query.execution_options(yield_per=CHUNK)).mappings():
                yield dict(row)

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
