"""Sweeps at a glance: found by their ids, listed page by page, with their trials counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from orchestrator.errors import NotThereError
from orchestrator.store import schema
from orchestrator.store.base import StorePart
from orchestrator.store.chunks import chunks
from orchestrator.store.engine import reading
from orchestrator.store.records import Counts
from orchestrator.store.states import SweepState
from orchestrator.store.status import SweepStatus

_SHOWN = tuple(
    schema.sweeps.c[name]
    for name in (
        "id", "name", "kind", "state", "priority", "user", "trials", "reused", "created", "started", "finished",
        "report",
    )
)  # fmt: skip

_EXPECTED = (schema.outlooks.c.seconds_left, schema.outlooks.c.waiting, schema.outlooks.c.growth)

ON_THEIR_WAY = (SweepState.QUEUED, SweepState.RUNNING)
"""States in which what was said of the rest of a sweep holds; of one that is paused, only why."""


class Listing(StorePart):
    """The part of the store that shows sweeps without reading all of them."""

    def status(self, identity: str) -> SweepStatus:
        """The sweep whose id is or begins with `identity`. Raises NotThereError if none's or several do."""
        prefix = identity.replace("%", "").replace("_", "")
        with reading(self.engine) as connection:
            found = self._statuses(connection, schema.sweeps.c.id.like(f"{prefix}%"), 2, 0) if prefix else []
        if not found:
            raise NotThereError(f"there is no sweep `{identity}`: `slotsweep status` lists them")
        if len(found) > 1:
            raise NotThereError(f"several sweeps begin with `{identity}`: write more of the id")
        return found[0]

    def statuses(
        self,
        states: Sequence[SweepState] | None = None,
        user: str | None = None,
        words: str = "",
        *,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[SweepStatus]:
        """Sweeps in `states` (None: any) that `user` submitted (None: whoever did), newest first.

        words: what their name holds, or their id begins with
        """
        with reading(self.engine) as connection:
            return self._statuses(connection, _asked(states, user, words), limit, offset)

    def count_sweeps(self, states: Sequence[SweepState] | None = None, user: str | None = None, words: str = "") -> int:
        """How many sweeps `statuses` would list without a limit."""
        with reading(self.engine) as connection:
            query = select(func.count()).select_from(schema.sweeps).where(_asked(states, user, words))
            return int(connection.execute(query).scalar_one())

    def _statuses(
        self, connection: Connection, which: ColumnElement[bool], limit: int | None, offset: int
    ) -> list[SweepStatus]:
        rows = connection.execute(_query(which).limit(limit).offset(offset)).mappings().all()
        counts = _counts(connection, [row["id"] for row in rows])
        return [_status(row, counts.get(row["id"], {})) for row in rows]


def _asked(states: Sequence[SweepState] | None, user: str | None, words: str) -> ColumnElement[bool]:
    columns = schema.sweeps.c
    named = or_(columns.name.icontains(words, autoescape=True), columns.id.istartswith(words, autoescape=True))
    return and_(
        True,
        *(() if states is None else (columns.state.in_(states),)),
        *(() if user is None else (columns.user == user,)),
        *((named,) if words else ()),
    )


def _query(which: ColumnElement[bool]) -> Select[Any]:
    columns = schema.sweeps.c
    joined = schema.sweeps.outerjoin(schema.outlooks, schema.outlooks.c.sweep == columns.id)
    return select(*_SHOWN, *_EXPECTED).select_from(joined).where(which).order_by(columns.created.desc(), columns.id)


def _counts(connection: Connection, sweeps: Iterable[str]) -> dict[str, dict[str, int]]:
    """Trials by state of each of `sweeps`."""
    links, trials = schema.sweep_trials.c, schema.trials.c
    counts: dict[str, dict[str, int]] = {}
    for chunk in chunks(sweeps):
        grouped = connection.execute(
            select(links.sweep, trials.state, func.count())
            .join(schema.trials, trials.id == links.trial)
            .where(links.sweep.in_(chunk))
            .group_by(links.sweep, trials.state)
        )
        for sweep, state, count in grouped:
            counts.setdefault(sweep, {})[state] = count
    return counts


def _status(row: Mapping[Any, Any], counts: Mapping[str, int]) -> SweepStatus:
    values = dict(row)
    if values["state"] not in ON_THEIR_WAY:
        why = values["waiting"] if values["state"] == SweepState.PAUSED else None
        values |= {column.name: None for column in _EXPECTED} | {"waiting": why}
    return SweepStatus(**values, counts=Counts(**counts))
