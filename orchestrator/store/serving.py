"""What the service needs beside sweeps: who has which duty, outlooks of sweeps on their way, events and webhooks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, insert, or_, select, update

from orchestrator.store import schema
from orchestrator.store.base import StorePart, insert_new, insert_or
from orchestrator.store.engine import reading
from orchestrator.store.leasing import leave_lease, take_lease
from orchestrator.store.states import EventKind


@dataclass(frozen=True)
class OutlookRow:
    """What whoever runs a sweep said of the rest of it, at `updated`.

    seconds_left  None before that can be told; waiting: why trials have no worker to go to; growth: how far it is with
                  what is added as results come in
    """

    sweep: str
    updated: float
    seconds_left: float | None = None
    waiting: str | None = None
    growth: str | None = None


@dataclass(frozen=True)
class EventRow:
    """Something that webhooks tell of."""

    id: int
    kind: EventKind
    sweep: str | None
    worker: str | None
    at: float


@dataclass(frozen=True)
class DeliveryRow:
    """An event on its way to one webhook, after `attempts` that failed, the last one with `error`."""

    event: EventRow
    webhook: str
    attempts: int
    error: str | None


@dataclass(frozen=True)
class ToldRow:
    """What became of an event at a webhook that was tried at least once (times are seconds since the epoch).

    next_attempt  None: there will be none; delivered: None: it has not been taken, for the reason in `error`
    """

    event: EventRow
    webhook: str
    attempts: int
    next_attempt: float | None
    delivered: float | None
    error: str | None


class Serving(StorePart):
    """The part of the store that the service's processes agree through."""

    def take_duty(self, duty: str, holder: str, seconds: float) -> bool:
        """Become (or stay) the one process that has `duty`; False if another one has it.

        `holder` is a registered orchestrator. One that is known to be dead has lost its duties.
        """
        return take_lease(self.engine, schema.service_leases, duty, holder, seconds)

    def leave_duty(self, duty: str, holder: str) -> None:
        """Let another process have `duty`."""
        leave_lease(self.engine, schema.service_leases, duty, holder)

    def set_outlook(self, outlook: OutlookRow) -> None:
        """Say what is to be expected of a sweep."""
        self.set_outlooks([outlook])

    def set_outlooks(self, outlooks: Sequence[OutlookRow]) -> None:
        """As `set_outlook`, for many sweeps in one transaction."""
        if not outlooks:
            return
        with self.engine.begin() as connection:
            new = insert_or(connection, schema.outlooks)
            told = {name: new.excluded[name] for name in vars(outlooks[0]) if name != "sweep"}
            statement = new.on_conflict_do_update(index_elements=[schema.outlooks.c.sweep], set_=told)
            connection.execute(statement, [vars(outlook) for outlook in outlooks])

    def outlooks(self, sweeps: Sequence[str]) -> dict[str, OutlookRow]:
        """The outlooks of those of `sweeps` that have one."""
        columns = schema.outlooks.c
        with reading(self.engine) as connection:
            rows = connection.execute(select(schema.outlooks).where(columns.sweep.in_(sweeps))).mappings()
            return {row["sweep"]: OutlookRow(**row) for row in rows}

    def events(self, after: int, limit: int) -> list[EventRow]:
        """Events after the one with the id `after`, oldest first."""
        columns = schema.events.c
        with reading(self.engine) as connection:
            query = select(schema.events).where(columns.id > after).order_by(columns.id).limit(limit)
            return [_event(row) for row in connection.execute(query).mappings()]

    def add_webhook(self, name: str) -> None:
        """Tell the webhook `name` of every event from now on, unless it is told already. Its address is not stored."""
        with self.engine.begin() as connection:
            last = connection.execute(select(func.coalesce(func.max(schema.events.c.id), 0))).scalar_one()
            connection.execute(insert_new(connection, schema.webhooks).values(name=name, since=last))

    def due_deliveries(self, webhooks: Sequence[str], limit: int) -> list[DeliveryRow]:
        """Events that `webhooks` have not heard of and that are to be told now, oldest first."""
        events, hooks, deliveries = schema.events.c, schema.webhooks.c, schema.deliveries.c
        here = and_(deliveries.event == events.id, deliveries.webhook == hooks.name)
        is_due = or_(deliveries.event.is_(None), deliveries.next_attempt <= time.time())
        query = (
            select(
                schema.events, hooks.name, func.coalesce(deliveries.attempts, 0).label("attempts"), deliveries.error
            )
            .select_from(schema.events.join(schema.webhooks, events.id > hooks.since))
            .outerjoin(schema.deliveries, here)
            .where(hooks.name.in_(webhooks), is_due)
            .order_by(events.id, hooks.name)
            .limit(limit)
        )  # fmt: skip
        with reading(self.engine) as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return [
            DeliveryRow(
                webhook=row.pop("name"), attempts=row.pop("attempts"), error=row.pop("error"), event=_event(row)
            )
            for row in rows
        ]

    def note_delivery(self, delivery: DeliveryRow, error: str | None, next_attempt: float | None) -> None:
        """Note an attempt at a delivery. `error` None: it was taken; `next_attempt` None: there will be no other."""
        columns = schema.deliveries.c
        values = {
            "attempts": delivery.attempts + 1,
            "error": error,
            "next_attempt": next_attempt,
            "delivered": time.time() if error is None else None,
        }
        key = {"event": delivery.event.id, "webhook": delivery.webhook}
        with self.engine.begin() as connection:
            made = connection.execute(insert_new(connection, schema.deliveries).values(**key, **values)).rowcount
            if made != 1:
                mine = (columns.event == delivery.event.id) & (columns.webhook == delivery.webhook)
                connection.execute(update(schema.deliveries).where(mine).values(**values))

    def told(self, limit: int) -> list[ToldRow]:
        """What became of the newest events at each webhook, newest first."""
        events, deliveries = schema.events.c, schema.deliveries
        query = (
            select(schema.events, *(column for column in deliveries.c if column.name != "event"))
            .join(deliveries, deliveries.c.event == events.id)
            .order_by(events.id.desc(), deliveries.c.webhook)
            .limit(limit)
        )
        with reading(self.engine) as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        own = [column.name for column in schema.events.c]
        return [ToldRow(event=_event({name: row.pop(name) for name in own}), **row) for row in rows]

    def skip_told(self, webhook: str, before: float) -> None:
        """Look no more at the first events that `webhook` has done with, if they happened `before`: it stays quick.

        Events of a moment ago are left, since one with a lower id may still be on its way into the database.
        """
        events, hooks, deliveries = schema.events.c, schema.webhooks.c, schema.deliveries.c
        here = and_(deliveries.event == events.id, deliveries.webhook == hooks.name)
        is_open = or_(deliveries.event.is_(None), deliveries.next_attempt.is_not(None), events.at >= before)
        first = (
            select(func.min(events.id))
            .select_from(schema.events.join(schema.webhooks, events.id > hooks.since))
            .outerjoin(schema.deliveries, here)
            .where(hooks.name == webhook, is_open)
        )
        with self.engine.begin() as connection:
            found = connection.execute(first).scalar_one()
            last = select(func.max(events.id)).scalar_subquery() if found is None else found - 1
            connection.execute(
                update(schema.webhooks).where(hooks.name == webhook).values(since=func.coalesce(last, hooks.since))
            )


def note_event(connection: Connection, kind: EventKind, *, sweep: str | None = None, worker: str | None = None) -> None:
    """Note an event, in the transaction that makes it happen."""
    connection.execute(insert(schema.events).values(kind=kind, sweep=sweep, worker=worker, at=time.time()))


def _event(row: object) -> EventRow:
    fields = dict(row)  # type: ignore[call-overload]
    return EventRow(**{**fields, "kind": EventKind(fields["kind"])})
