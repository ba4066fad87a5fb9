"""The tracker's outbox: what the tracker has not heard of yet, and who may tell it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, select, update

from orchestrator.store import schema
from orchestrator.store.base import StorePart, insert_new
from orchestrator.store.chunks import chunks
from orchestrator.store.clock import is_dead, lease_now
from orchestrator.store.engine import reading
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
        columns = schema.tracker_leases.c
        with self.engine.begin() as connection:
            clock, now = lease_now(connection)
            mine = {"holder": holder, "lease_clock": clock, "leased_until": now + seconds}
            made = connection.execute(
                insert_new(connection, schema.tracker_leases).values(sweep=sweep, **mine)
            ).rowcount
            if made == 1:
                return True
            mine_or_nobodys = columns.holder.in_([holder, *_dead_holders(connection, sweep)])
            free = mine_or_nobodys | (columns.lease_clock != clock) | (columns.leased_until < now)
            statement = update(schema.tracker_leases).where(columns.sweep == sweep, free).values(**mine)
            return connection.execute(statement).rowcount == 1

    def stop_tracking(self, sweep: str, holder: str) -> None:
        """Let somebody else tell the tracker of `sweep`."""
        columns = schema.tracker_leases.c
        with self.engine.begin() as connection:
            connection.execute(delete(schema.tracker_leases).where(columns.sweep == sweep, columns.holder == holder))


def _dead_holders(connection: Connection, sweep: str) -> list[str]:
    """The holder of the lease to tell of `sweep`, if it is a process that is gone."""
    leases, holders = schema.tracker_leases.c, schema.orchestrators.c
    query = (
        select(holders.id, holders.host, holders.boot, holders.pid, holders.process_started)
        .join(schema.tracker_leases, leases.holder == holders.id)
        .where(leases.sweep == sweep)
    )
    return [identity for identity, *process in connection.execute(query) if is_dead(*process)]
