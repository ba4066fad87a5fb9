"""Databases of the first schema, for tests of upgrading: `fixtures/README.md` says what they hold."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Integer, MetaData, insert, select, text

from orchestrator.store.engine import open_engine
from orchestrator.store.upgrade import migrate
from orchestrator.store.version import VERSION_TABLE

FIRST = "0001"
FIRST_SCHEMA = Path(__file__).parent / "fixtures" / "first_schema.sql"


def write_first_schema(path: Path) -> None:
    """The old database as an SQLite file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(FIRST_SCHEMA.read_text(encoding="utf-8"))


def fill_first_schema(url: str, scratch: Path) -> None:
    """The same rows in an empty Postgres database, in tables that the first migration made."""
    write_first_schema(scratch)
    engine = open_engine(url)
    with engine.begin() as connection:
        migrate(connection, FIRST)
    old = rows_of(open_engine(f"sqlite:///{scratch}"))
    tables = MetaData()
    tables.reflect(engine)
    with engine.begin() as connection:
        for table in tables.sorted_tables:
            if old[table.name] and table.name != VERSION_TABLE:
                connection.execute(insert(table), old[table.name])
            if "id" in table.c and isinstance(table.c.id.type, Integer):  # had the server given the ids, it would go on
                sequence = f"pg_get_serial_sequence('{table.name}', 'id')"
                connection.execute(text(f"SELECT setval({sequence}, (SELECT max(id) FROM {table.name}))"))
    engine.dispose()


def rows_of(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, as the database itself describes them."""
    tables = MetaData()
    tables.reflect(engine)
    with engine.connect() as connection:
        return {
            table.name: [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()]
            for table in tables.sorted_tables
        }
