"""Leases that one process at a time has: tables with a row a thing, and its `holder`, `lease_clock`, `leased_until`."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, Table, delete, select, update

from orchestrator.store import schema
from orchestrator.store.base import insert_new
from orchestrator.store.clock import is_dead, lease_now


def take_lease(engine: Engine, table: Table, thing: str, holder: str, seconds: float) -> bool:
    """Become (or stay) the one that has the lease on `thing`, a key of `table`; False if another one has it.

    A holder that was registered as an orchestrator and is known to be dead has lost its leases.
    """
    [key], columns = table.primary_key, table.c
    with engine.begin() as connection:
        clock, now = lease_now(connection)
        mine = {"holder": holder, "lease_clock": clock, "leased_until": now + seconds}
        made = connection.execute(insert_new(connection, table).values({key.name: thing, **mine})).rowcount
        if made == 1:
            return True
        mine_or_nobodys = columns.holder.in_([holder, *_dead_holders(connection, table, thing)])
        free = mine_or_nobodys | (columns.lease_clock != clock) | (columns.leased_until < now)
        return connection.execute(update(table).where(key == thing, free).values(**mine)).rowcount == 1


def leave_lease(engine: Engine, table: Table, thing: str, holder: str) -> None:
    """Let another one have the lease on `thing`, if it is `holder`'s."""
    [key] = table.primary_key
    with engine.begin() as connection:
        connection.execute(delete(table).where(key == thing, table.c.holder == holder))


def _dead_holders(connection: Connection, table: Table, thing: str) -> list[str]:
    """The holder of the lease on `thing`, if it is a process that is gone."""
    [key], holders = table.primary_key, schema.orchestrators.c
    query = (
        select(holders.id, holders.host, holders.boot, holders.pid, holders.process_started)
        .join(table, table.c.holder == holders.id)
        .where(key == thing)
    )
    return [identity for identity, *process in connection.execute(query) if is_dead(*process)]
