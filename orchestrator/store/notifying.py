"""The tracker's outbox: what the tracker has not heard of yet, and who may tell it."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from sqlalchemy import func, insert, select, update

from orchestrator.store import schema
from orchestrator.store.base import StorePart, notify_sweep
from orchestrator.store.chunks import chunks
from orchestrator.store.engine import reading
from orchestrator.store.leasing import leave_lease, take_lease
from orchestrator.store.records import Notice


class Notifying(StorePart):
    """The part of the store that feeds the tracker."""

    def notices(self, sweep: str | None, limit: int) -> list[Notice]:
        """The oldest undelivered notices, of one sweep or of all."""
        columns, links = schema.outbox.c, schema.sweep_trials.c
        query = (
            select(columns.id, columns.sweep, columns.trial, links.position)
            .outerjoin(schema.sweep_trials, (links.sweep == columns.sweep) & (links.trial == columns.trial))
            .where(columns.delivered.is_(None), columns.refused.is_(None))
        )
        if sweep is not None:
            query = query.where(columns.sweep == sweep)
        with reading(self.engine) as connection:
            return [Notice(*row) for row in connection.execute(query.order_by(columns.id).limit(limit))]

    def tell_again(self, sweep: str, positions: Collection[int]) -> None:
        """Tell the tracker once more of the sweep's trials at `positions`, and of those it was told of twice before."""
        columns, links = schema.outbox.c, schema.sweep_trials.c
        mine = select(links.sweep, links.trial, links.reused).where(links.sweep == sweep)
        again = (
            select(columns.trial)
            .where(columns.sweep == sweep, columns.trial.is_not(None))
            .group_by(columns.trial)
            .having(func.count() > 1)
        )
        waiting = select(columns.trial).where(
            columns.sweep == sweep, columns.trial.is_not(None), columns.delivered.is_(None)
        )
        with self.engine.begin() as connection:
            untold = links.trial.not_in(waiting)
            for query in (
                mine.where(links.trial.in_(again), untold),
                *(mine.where(links.position.in_(chunk), untold) for chunk in chunks(sorted(positions))),
            ):
                connection.execute(insert(schema.outbox).from_select(["sweep", "trial", "reused"], query))

    def remind(self, sweep: str) -> None:
        """Tell the tracker of the sweep itself once more."""
        with self.engine.begin() as connection:
            notify_sweep(connection, sweep)

    def delivered(self, notices: Sequence[int]) -> None:
        """Note that the tracker has heard of `notices`."""
        with self.engine.begin() as connection:
            for chunk in chunks(notices):
                connection.execute(
                    update(schema.outbox).where(schema.outbox.c.id.in_(chunk)).values(delivered=time.time())
                )

    def refuse(self, notice: int, reason: str) -> None:
        """Note that the tracking store will not take this notice; it is kept, and offered again to the next tracker."""
        with self.engine.begin() as connection:
            connection.execute(update(schema.outbox).where(schema.outbox.c.id == notice).values(refused=reason))

    def forget_refusals(self) -> None:
        """Offer refused notices again: whoever starts a tracker may have mended what was wrong."""
        columns = schema.outbox.c
        with self.engine.begin() as connection:
            connection.execute(
                update(schema.outbox)
                .where(columns.delivered.is_(None), columns.refused.is_not(None))
                .values(refused=None)
            )

    def refusal(self, sweep: str) -> str | None:
        """Why the tracking store refused a notice of `sweep`; None if it refused none."""
        columns = schema.outbox.c
        query = select(columns.refused).where(
            columns.sweep == sweep, columns.delivered.is_(None), columns.refused.is_not(None)
        )
        with reading(self.engine) as connection:
            return connection.execute(query.limit(1)).scalar_one_or_none()

    def undelivered(self, sweep: str) -> int:
        """How many notices of `sweep` the tracker has not heard of, refused ones included."""
        columns = schema.outbox.c
        query = select(func.count()).where(columns.sweep == sweep, columns.delivered.is_(None))
        with reading(self.engine) as connection:
            return int(connection.execute(query).scalar_one())

    def sweeps_to_tell_of(self) -> list[str]:
        """Sweeps that have undelivered notices, those waiting longest first."""
        columns = schema.outbox.c
        query = (
            select(columns.sweep)
            .where(columns.delivered.is_(None), columns.refused.is_(None))
            .group_by(columns.sweep)
            .order_by(func.min(columns.id))
        )
        with reading(self.engine) as connection:
            return list(connection.execute(query).scalars())

    def lease_tracking(self, sweep: str, holder: str, seconds: float) -> bool:
        """Become (or stay) the one process that tells the tracker of `sweep`; False if another one is.

        A holder that was registered as an orchestrator and is known to be dead has lost its lease.
        """
        return take_lease(self.engine, schema.tracker_leases, sweep, holder, seconds)

    def stop_tracking(self, sweep: str, holder: str) -> None:
        """Let somebody else tell the tracker of `sweep`."""
        leave_lease(self.engine, schema.tracker_leases, sweep, holder)
