"""Whose a sweep is: one orchestrator at a time runs it, which keeps it by a lease; others watch, or wait."""

from __future__ import annotations

import socket

from sqlalchemy import Connection, delete, select, update

from orchestrator.store import schema
from orchestrator.store.base import StorePart, insert_new
from orchestrator.store.clock import is_dead, lease_now
from orchestrator.store.engine import reading
from orchestrator.store.leasing import leave_lease, take_lease

RUN_SWEEPS = "run sweeps"
"""The duty of the one service of a database that has sweeps run."""

PREFIX = "sweep "
"""How the duty to run a sweep is named, before its id."""

OWNED_SECONDS = 20.0
"""How long a sweep is its owner's who says nothing any more; one that is known to be dead has lost it at once."""


class Owning(StorePart):
    """The part of the store that knows whose sweeps are."""

    def own_sweep(self, sweep: str, owner: str) -> bool:
        """Let `sweep` be `owner`'s, a registered orchestrator; False if it is another one's."""
        return take_lease(self.engine, schema.service_leases, PREFIX + sweep, owner, OWNED_SECONDS)

    def keep_sweeps(self, owner: str) -> None:
        """Let sweeps stay those of `owner` that are."""
        leases = schema.service_leases.c
        with self.engine.begin() as connection:
            clock, now = lease_now(connection)
            connection.execute(
                update(schema.service_leases)
                .where(leases.holder == owner, leases.duty.startswith(PREFIX))
                .values(lease_clock=clock, leased_until=now + OWNED_SECONDS)
            )

    def leave_sweep(self, sweep: str, owner: str) -> None:
        """Let `sweep` be nobody's, if it is `owner`'s."""
        leave_lease(self.engine, schema.service_leases, PREFIX + sweep, owner)

    def leave_sweeps(self, owner: str) -> None:
        """Let all sweeps be nobody's that are `owner`'s."""
        leases = schema.service_leases.c
        with self.engine.begin() as connection:
            connection.execute(
                delete(schema.service_leases).where(leases.holder == owner, leases.duty.startswith(PREFIX))
            )

    def owned(self, process: int | None = None) -> set[str]:
        """Sweeps that belong to living orchestrators, those in `process` (its id) of this host aside."""
        leases, holders = schema.service_leases.c, schema.orchestrators.c
        query = (
            select(leases.duty, holders.host, holders.boot, holders.pid, holders.process_started)
            .join(schema.orchestrators, holders.id == leases.holder)
            .where(leases.duty.startswith(PREFIX))
        )
        with reading(self.engine) as connection:
            clock, now = lease_now(connection)
            rows = connection.execute(query.where(leases.lease_clock == clock, leases.leased_until >= now)).all()
        mine = (socket.gethostname(), process)
        return {
            row.duty.removeprefix(PREFIX)
            for row in rows
            if (row.host, row.pid) != mine and not is_dead(row.host, row.boot, row.pid, row.process_started)
        }

    def is_served(self) -> bool:
        """Whether a service runs the sweeps of this store."""
        leases, holders = schema.service_leases.c, schema.orchestrators.c
        query = (
            select(holders.host, holders.boot, holders.pid, holders.process_started)
            .join(schema.service_leases, holders.id == leases.holder)
            .where(leases.duty == RUN_SWEEPS)
        )
        with reading(self.engine) as connection:
            clock, now = lease_now(connection)
            rows = connection.execute(query.where(leases.lease_clock == clock, leases.leased_until >= now)).all()
        return any(not is_dead(*process) for process in rows)


def own(connection: Connection, sweep: str, owner: str) -> None:
    """Let a new `sweep` be `owner`'s, in the transaction that submits it."""
    clock, now = lease_now(connection)
    row = {"duty": PREFIX + sweep, "holder": owner, "lease_clock": clock, "leased_until": now + OWNED_SECONDS}
    connection.execute(insert_new(connection, schema.service_leases).values(**row))
