"""Optuna's own store in SQLite or Postgres: reaching it, telling its version, and creating it exactly once."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError

from orchestrator.tracker.mlflow_store import connect
from orchestrator.tracker.tracker import TrackerRefusedError, TrackerUnavailableError
from orchestrator.tuner.quiet import quiet_optuna

KNOWN_VERSIONS = frozenset({"v3.2.0.a"})
"""Alembic revisions of Optuna's schema (5.0) whose tables we write."""

BACKENDS = ("sqlite", "postgresql")

SCHEMA_LOCK, WRITERS_LOCK = 0x510753, 0x510754
"""Keys of the Postgres locks under which the schema is created, and writers take their turn."""

ASIDE = ".optuna-new-"


def open_store(url: str) -> Engine:
    """An engine for the store at `url`, which is created if it is empty. Safe in several processes at once.

    Raises TrackerRefusedError for what is no Optuna store of a known version and cannot be made one.
    """
    engine = _connect(url)
    try:
        with errors_named(engine):
            # On Postgres others may see a half-made schema: only under its lock can be told whose tables there are.
            if engine.dialect.name == "postgresql" or _version(engine) is None:
                _create(engine)
                engine.dispose()  # what it holds open may be the empty file that was replaced
    except BaseException:
        engine.dispose()
        raise
    return engine


def _connect(url: str) -> Engine:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise TrackerRefusedError(
            "what should name Optuna's store is not a database URL, such as sqlite:///optuna.db"
        ) from error
    if parsed.get_backend_name() not in BACKENDS:
        raise TrackerRefusedError(
            f"SLOTSWEEP_OPTUNA_URL is `{parsed}`: studies go to sqlite:///... or postgresql://..."
        )
    if parsed.get_backend_name() == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise TrackerRefusedError("an Optuna store in memory ends with this process: name a file, sqlite:///PATH")
        Path(str(parsed.database)).absolute().parent.mkdir(parents=True, exist_ok=True)
    return connect(url)


@contextmanager
def errors_named(engine: Engine) -> Iterator[None]:
    """Turn SQLAlchemy's errors about the store into the tracker's own."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise TrackerUnavailableError(f"Optuna store {engine.url}: {error.orig}") from error
    except DBAPIError as error:
        kind = TrackerUnavailableError if error.connection_invalidated else TrackerRefusedError
        raise kind(f"Optuna store {engine.url}: {error.orig}") from error


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that no other writer of ours works beside."""
    with errors_named(engine), engine.begin() as connection:
        if connection.dialect.name == "postgresql":  # on SQLite the transaction itself has the only write lock
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": WRITERS_LOCK})
        yield connection


def _version(engine: Engine) -> str | None:
    """The alembic revision of the store, or None if the database is empty."""
    names = set(inspect(engine).get_table_names())
    if not names:
        return None
    if not {"studies", "trials", "alembic_version"} <= names:
        raise TrackerRefusedError(
            f"{engine.url} holds tables that are not Optuna's ({', '.join(sorted(names)[:4])}, ...): slotsweep, Optuna "
            "and MLflow need a database each; point SLOTSWEEP_OPTUNA_URL at one of its own"
        )
    with engine.connect() as connection:
        version = str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none())
    if version not in KNOWN_VERSIONS:
        raise TrackerRefusedError(
            f"the Optuna store {engine.url} has version {version}, and we write {', '.join(sorted(KNOWN_VERSIONS))}: "
            "`optuna storage upgrade --storage URL` brings it up to date"
        )
    return version


def _create(engine: Engine) -> None:
    if engine.dialect.name == "sqlite":
        _create_sqlite(Path(str(engine.url.database)).absolute())
        return
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": SCHEMA_LOCK})
        try:
            if _version(engine) is None:
                _initialise(engine.url.render_as_string(hide_password=False))
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": SCHEMA_LOCK})


def _create_sqlite(file: Path) -> None:
    """Build the store aside and move it into place, so that a process killed half-way leaves none rather than half."""
    from filelock import FileLock

    with FileLock(file.with_name(f"{file.name}.lock")):
        engine = connect(f"sqlite:///{file}")
        version = _version(engine)
        engine.dispose()
        if version is not None:
            return
        for left_over in file.parent.glob(f"{ASIDE}*"):
            shutil.rmtree(left_over)
        aside = Path(tempfile.mkdtemp(dir=file.parent, prefix=ASIDE))
        _initialise(f"sqlite:///{aside / file.name}")
        connection = sqlite3.connect(aside / file.name)
        connection.execute("PRAGMA journal_mode = WAL")  # a dashboard can read while we write
        connection.close()
        with open(aside / file.name, "rb") as content:
            os.fsync(content.fileno())
        os.replace(aside / file.name, file)
        shutil.rmtree(aside)


def _initialise(url: str) -> None:
    from optuna.storages import RDBStorage

    quiet_optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        RDBStorage(url).engine.dispose()
