"""Opening the database: SQLite in WAL mode or Postgres, its schema version checked, never guessed."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Connection,
    Engine,
    ExceptionContext,
    Executable,
    create_engine,
    event,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from orchestrator.errors import StoreError
from orchestrator.settings import private_folder
from orchestrator.store.schema import metadata
from orchestrator.store.version import HEAD, VERSION_TABLE, old_schema

BUSY_SECONDS = 60
SCHEMA_LOCK = 7310220
"""Postgres' advisory lock under which tables are made and changed."""

DISK_FULL = "53100"
"""Postgres' code for a full disk."""


def open_engine(url: str) -> Engine:
    """An engine for `url`; makes the folder of a SQLite file.

    Raises StoreError for a URL that names neither SQLite nor Postgres, and for a folder that cannot be made.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:  # it may hold a password: it is not quoted
        raise StoreError(
            "what should name the database is not a database URL, such as sqlite:///sweeps.db or postgresql://..."
        ) from error
    if parsed.get_backend_name() == "sqlite":
        if parsed.database:
            _make_folder(Path(parsed.database).parent)
            _make_private(Path(parsed.database))
        engine = create_engine(parsed, connect_args={"timeout": BUSY_SECONDS})
        _use_wal(engine)
        _tell_of_full_disks(engine)
        return engine
    if parsed.get_backend_name() == "postgresql":
        engine = create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
        _tell_of_full_disks(engine)
        return engine
    raise StoreError(f"databases of kind `{parsed.get_backend_name()}` are not supported: use sqlite or postgresql")


def _make_folder(folder: Path) -> None:
    try:
        private_folder(folder)
    except OSError as error:
        raise StoreError(
            f"the folder {folder} of the database cannot be made: {error.strerror}; name another place with "
            "SLOTSWEEP_HOME or SLOTSWEEP_DATABASE_URL"
        ) from error


def _make_private(file: Path) -> None:
    """Let nobody else read a database that is new; one that is there stays as its owner wants it."""
    with suppress(OSError):  # what is wrong, opening it will say
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _use_wal(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        _switch_to_wal(connection)
        for pragma in ("synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes its lock at once: upgrading from a read lock later could only fail with "database is locked".
        options = connection.get_execution_options()
        if options.get("slotsweep_at_once", False):
            _begin_at_once(connection)
        else:
            connection.exec_driver_sql("BEGIN" if options.get("slotsweep_reading", False) else "BEGIN IMMEDIATE")


def _begin_at_once(connection: Connection) -> None:
    """Begin to write if nobody else does."""
    connection.exec_driver_sql("PRAGMA busy_timeout=0")
    try:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout={1000 * BUSY_SECONDS}")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Raises sqlite3.OperationalError if the file stays locked for BUSY_SECONDS."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            # Two who switch an empty file at once would wait for each other: SQLite refuses one of them at once,
            # whatever its timeout.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(random.uniform(0.001, 0.05))


def _tell_of_full_disks(engine: Engine) -> None:
    """Waiting a moment does not help against a full disk: it becomes a StoreError, which says what does."""

    @event.listens_for(engine, "handle_error")
    def tell(context: ExceptionContext) -> None:
        error = context.original_exception
        sqlite_code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if sqlite_code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) or getattr(error, "sqlstate", "") == DISK_FULL:
            raise StoreError(
                f"cannot write to the database at {shown(engine)}: {str(error).splitlines()[0]}; what was stored "
                "before stays whole: make room on its disk, then `slotsweep resume` finishes what is missing"
            ) from error


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection for reading a consistent snapshot."""
    with engine.connect().execution_options(slotsweep_reading=True) as connection:
        yield connection


def write_at_once(engine: Engine, statement: Executable) -> None:
    """Carry out `statement`, unless others write to a SQLite file: they are not waited for."""
    with (
        suppress(OperationalError),
        engine.connect().execution_options(slotsweep_at_once=True) as connection,
        connection.begin(),
    ):
        connection.execute(statement)


def ensure_schema(engine: Engine) -> None:
    """Create the tables in an empty database; refuse one of another version, or one that belongs to another program."""
    if VERSION_TABLE in our_tables(engine):
        _check_version(engine)
    else:
        _create(engine)


def our_tables(engine: Engine) -> set[str]:
    """Names of the database's tables: ours, or none.

    Raises StoreError if it cannot be opened, or holds the tables of another program.
    """
    try:
        tables = set(inspect(engine).get_table_names())
    except SQLAlchemyError as error:
        raise StoreError(f"cannot open the database at {shown(engine)}: {reason_of(error)}") from error
    foreign = None if VERSION_TABLE in tables else _owner(tables)
    if foreign:
        raise StoreError(
            f"the database at {shown(engine)} holds {foreign}'s tables; slotsweep, Optuna and MLflow need a database "
            "each: point SLOTSWEEP_DATABASE_URL at one of its own"
        )
    return tables


def _create(engine: Engine) -> None:
    with engine.begin() as connection:
        lock_schema(connection)
        connection.execute(text(f"CREATE TABLE IF NOT EXISTS {VERSION_TABLE} (version_num VARCHAR(32) PRIMARY KEY)"))
        if connection.execute(text(f"SELECT count(*) FROM {VERSION_TABLE}")).scalar_one() == 0:
            metadata.create_all(connection)
            connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES ('{HEAD}')"))


def lock_schema(connection: Connection) -> None:
    """Until the transaction ends nobody else makes or changes tables; a writer of SQLite is alone anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(SCHEMA_LOCK)))


def _check_version(engine: Engine) -> None:
    with reading(engine) as connection:
        found = schema_version(connection)
    if found != HEAD:
        raise StoreError(old_schema(shown(engine), found))


def schema_version(connection: Connection) -> str | None:
    """The version that the database's tables have; None if that was never noted."""
    version: str | None = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar_one_or_none()
    return version


def _owner(tables: set[str]) -> str | None:
    """The program whose tables these are, if it is not ours."""
    if "studies" in tables:
        return "Optuna"
    if {"experiments", "runs"} <= tables:
        return "MLflow"
    return "another program" if "alembic_version" in tables else None


def shown(engine: Engine) -> str:
    """The database's URL without its password."""
    return engine.url.render_as_string(hide_password=True)


def reason_of(error: SQLAlchemyError) -> str:
    """What the database itself said, in one line."""
    original = error.orig if isinstance(error, DBAPIError) else error
    return str(original).strip().splitlines()[0]


def lost(error: BaseException) -> str | None:
    """What to tell of an error that says no more than that the database is away or busy; None of any other."""
    if not isinstance(error, OperationalError | InterfaceError):
        return None
    # To SQLite a table that is missing is "operational" too.
    if getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_BUSY) == sqlite3.SQLITE_ERROR:
        return None
    return f"the database does not answer: {reason_of(error)}; what was stored stays: try again when it does"
