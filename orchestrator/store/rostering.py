"""Who computes: the workers that the store knows, what they hold, and what they have done."""

from __future__ import annotations

from sqlalchemy import func, select

from orchestrator.store import schema
from orchestrator.store.base import StorePart
from orchestrator.store.engine import reading
from orchestrator.store.records import WorkerRow


class Rostering(StorePart):
    """The part of the store that knows the workers."""

    def workers(self) -> list[WorkerRow]:
        """Every worker, the last seen first, with the batches and trials it holds now, and the trials it has done."""
        workers, hardware = schema.workers.c, schema.hardware.c
        attempts, results = schema.attempts.c, schema.results.c
        held = (
            select(attempts.worker, func.count().label("batches"), func.sum(attempts.trials).label("trials"))
            .where(schema.is_open)
            .group_by(attempts.worker)
            .subquery()
        )
        done = select(results.worker, func.count().label("trials")).group_by(results.worker).subquery()
        query = (
            select(
                workers.id, workers.device, workers.state, workers.executor, workers.pid, workers.started,
                workers.last_seen, workers.agreement, hardware.record,
                func.coalesce(held.c.batches, 0).label("batches"), func.coalesce(held.c.trials, 0).label("trials"),
                func.coalesce(done.c.trials, 0).label("done"),
            )
            .join(schema.hardware, hardware.id == workers.hardware)
            .outerjoin(held, held.c.worker == workers.id)
            .outerjoin(done, done.c.worker == workers.id)
            .order_by(workers.last_seen.desc(), workers.id)
        )  # fmt: skip
        with reading(self.engine) as connection:
            return [WorkerRow(**row) for row in connection.execute(query).mappings()]
