"""Statements about many rows at once: however many there are, one statement, of one text, with one parameter or two.

What a database has to read and plan anew for every number of rows costs more than the rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    FromClause,
    Table,
    Text,
    any_,
    cast,
    column,
    func,
    insert,
    literal,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB


def among(connection: Connection, one: Column[Any], values: Collection[int] | Collection[str]) -> ColumnElement[bool]:
    """The condition that `one`, a column, is one of `values`."""
    if connection.dialect.name == "postgresql":
        return one == any_(literal(list(values), ARRAY(one.type)))
    return one.in_(select(func.json_each(json.dumps(list(values))).table_valued("value").c.value))


def given(connection: Connection, holders: Mapping[int, int]) -> FromClause:
    """A table of trials and the attempts that `holders` names for them, with columns `trial` and `attempt`."""
    if connection.dialect.name == "postgresql":
        both = func.unnest(_array(holders.keys()), _array(holders.values()))
        return both.table_valued(
            column("trial", BigInteger), column("attempt", BigInteger), name="given"
        ).render_derived()
    rows = func.json_each(json.dumps(list(holders.items()))).table_valued("value")
    return select(
        func.json_extract(rows.c.value, "$[0]", type_=BigInteger).label("trial"),
        func.json_extract(rows.c.value, "$[1]", type_=BigInteger).label("attempt"),
    ).subquery("given")


def held(
    connection: Connection, trial: Column[Any], holders: Mapping[int, int]
) -> tuple[ColumnElement[bool], ColumnElement[int]]:
    """For a change of trials: that `holders` names an attempt for `trial`, a column; and that attempt.

    On Postgres nothing is joined. It would choose how by guessing how many trials are as they should be, and what it
    knows of that is a minute old: thousands may be leased, or done, of which it believes that there is none.
    """
    if connection.dialect.name == "postgresql":
        attempts = cast(literal(holders, JSONB), JSONB)
        return among(connection, trial, holders), cast(attempts.op("->>")(cast(trial, Text)), BigInteger)
    named = given(connection, holders)
    return trial == named.c.trial, named.c.attempt


def numbered(connection: Connection, numbers: Sequence[int]) -> FromClause:
    """A table of `numbers` in their order, with columns `position` (from 0 on) and `number`."""
    if connection.dialect.name == "postgresql":
        listed = func.unnest(_array(numbers)).table_valued(
            column("number", BigInteger), with_ordinality="rank", name="listed"
        )
        ranked = listed.render_derived()
        return select((ranked.c.rank - 1).label("position"), ranked.c.number).subquery("numbered")
    rows = func.json_each(json.dumps(list(numbers))).table_valued("key", "value")
    return select(rows.c.key.label("position"), rows.c.value.label("number")).subquery("numbered")


def add(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert `rows` into `table`: plain data, each with the columns of the first."""
    if connection.dialect.name != "postgresql":
        connection.execute(insert(table), rows)
        return
    # One text of JSON: the driver sends rows one by one, and the server carries each out by itself.
    names: list[ColumnElement[Any]] = [column(name) for name in rows[0]]
    shape = func.json_populate_recordset(text(f"NULL::{table.name}"), literal(list(rows), JSON))
    connection.execute(insert(table).from_select(names, select(*names).select_from(shape)))


def _array(numbers: Collection[int]) -> ColumnElement[Any]:
    return literal(list(numbers), ARRAY(BigInteger))
