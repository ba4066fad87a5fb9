"""Bringing a database to the schema of this version."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, column, select, table
from sqlalchemy.exc import SQLAlchemyError

from orchestrator.errors import RequestError, StoreError
from orchestrator.store.clock import lease_now
from orchestrator.store.engine import (
    lock_schema,
    our_tables,
    reading,
    reason_of,
    schema_version,
    shown,
)
from orchestrator.store.version import HEAD, VERSION_TABLE

if TYPE_CHECKING:
    from alembic.config import Config


@dataclass(frozen=True)
class Upgrade:
    """What was done: the schema's version before and after, and the copy of the SQLite file as it was before."""

    before: str
    after: str
    backup: Path | None


def upgradable_version(engine: Engine) -> str:
    """The schema's version in `engine`'s database: this slotsweep's, or one that can be upgraded to it.

    Raises RequestError if there is no database, StoreError if it is not ours, is newer, or cannot be opened.
    """
    if VERSION_TABLE not in our_tables(engine):
        raise RequestError(f"the database at {shown(engine)} is empty: the first `slotsweep run` makes its tables")
    with reading(engine) as connection:
        return _known_version(connection)


def upgrade(engine: Engine, *, force: bool = False) -> Upgrade:
    """Run the migrations that the database lacks, in one transaction; a SQLite file is copied first.

    Raises RequestError if a run holds leases in it, unless `force` is given, StoreError if no copy can be made; then,
    and if a migration fails, nothing has changed.
    """
    try:
        with engine.begin() as connection:
            lock_schema(connection)
            before = _known_version(connection)
            if before == HEAD:
                return Upgrade(before, HEAD, None)
            if not force:
                _refuse_living_runs(connection)
            backup = _back_up(engine) if engine.dialect.name == "sqlite" else None
            migrate(connection)
    except SQLAlchemyError as error:
        raise StoreError(f"{shown(engine)} was not upgraded, and nothing changed: {reason_of(error)}") from error
    return Upgrade(before, HEAD, backup)


def migrate(connection: Connection, to: str = HEAD) -> None:
    """Run the migrations up to version `to` in the connection's transaction."""
    from alembic import command

    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


def _known_version(connection: Connection) -> str:
    from alembic.script import ScriptDirectory

    found = schema_version(connection)
    versions = [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()]
    if found in versions:
        return found
    where = f"the database at {shown(connection.engine)}"
    if found is None:
        raise StoreError(f"{where} does not say which schema it has: restore it from a copy")
    raise StoreError(
        f"{where} has schema {found}, which this slotsweep (schema {HEAD}) does not know: use the newer slotsweep that "
        "made it"
    )


def _refuse_living_runs(connection: Connection) -> None:
    """Raise RequestError if an attempt holds a lease: its process would write to tables that changed under it."""
    attempts = table("attempts", column("sweep"), column("state"), column("lease_clock"), column("leased_until"))
    clock, now = lease_now(connection)
    living = select(attempts.c.sweep).where(
        attempts.c.state == "open", attempts.c.lease_clock == clock, attempts.c.leased_until > now
    )
    sweeps = sorted(set(connection.execute(living).scalars()))
    if sweeps:
        raise RequestError(
            f"sweep {', '.join(sweeps)} is running on the database at {shown(connection.engine)}: let the run end or "
            "stop it (one that was killed holds its leases for a minute more), or upgrade under it with --force"
        )


def _back_up(engine: Engine) -> Path:
    """Copy the SQLite file, with what its write-ahead log holds; the copy, which never replaces an earlier one."""
    path = Path(str(engine.url.database))
    names = (path.with_name(f"{path.name}.before-{HEAD}{number}") for number in ("", *(f".{n}" for n in range(2, 100))))
    backup = next(name for name in names if not name.exists())
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(backup)) as target:
            source.backup(target)
    except sqlite3.Error as error:
        backup.unlink(missing_ok=True)
        raise StoreError(f"the database was not upgraded: it could not be copied to {backup}: {error}") from error
    return backup
