"""An MLflow store in SQLite or Postgres: reaching it, telling its version, and creating it exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from orchestrator.tracker.tracker import TrackerRefusedError, TrackerUnavailableError

LOCK_SECONDS = 30.0
"""Longest wait for another process's transaction on a SQLite store."""

KNOWN_VERSIONS = frozenset({"dc11669786a5"})
"""Alembic revisions of MLflow's schema (3.17) whose run tables we write directly. Others go through MLflow's client."""


def connect(uri: str) -> Engine:
    """An engine for the store at `uri`, whose transactions on SQLite take the write lock when they begin."""
    url = make_url(uri)
    if url.get_backend_name() == "postgresql":
        return create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": LOCK_SECONDS})

    @event.listens_for(engine, "connect")
    def leave_transactions_to_us(connection: object, _: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def sqlite_file(url: URL) -> Path:
    """The file of a SQLite store. Raises TrackerRefusedError for one in memory, which no one else could read."""
    if url.database in (None, "", ":memory:"):
        raise TrackerRefusedError("an MLflow store in memory ends with this process: name a file, sqlite:///PATH")
    return Path(str(url.database))


@contextmanager
def errors_named(place: str) -> Iterator[None]:
    """Turn SQLAlchemy's errors about `place` into the tracker's own."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise TrackerUnavailableError(f"MLflow store {place}: {error.orig}") from error
    except DBAPIError as error:
        kind = TrackerUnavailableError if error.connection_invalidated else TrackerRefusedError
        raise kind(f"MLflow store {place}: {error.orig}") from error


def schema_version(engine: Engine) -> str | None:
    """The alembic revision of the store, or None if it is empty.

    Raises TrackerRefusedError if the database holds somebody else's tables.
    """
    url = engine.url
    if url.get_backend_name() == "sqlite" and not _has_content(sqlite_file(url)):
        return None
    with errors_named(str(url)):
        names = set(inspect(engine).get_table_names())
        others = names - {"alembic_version"}
        if not others:
            return None
        if not {"experiments", "runs"} <= names:
            raise TrackerRefusedError(
                f"{url} holds tables that are not MLflow's ({', '.join(sorted(others)[:4])}, ...): MLflow needs a "
                "database or schema of its own, because it keeps its version in a table of alembic's default name"
            )
        with engine.connect() as connection:
            versions = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    return versions[0] if len(versions) == 1 else "mixed"


def _has_content(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def store_version(uri: str) -> str | None:
    """The alembic revision of the store at `uri`, or None if it is empty; raises what `schema_version` raises."""
    engine = connect(uri)
    try:
        return schema_version(engine)
    finally:
        engine.dispose()


def ensure_store(uri: str, artifact_root: str) -> None:
    """Create the store at `uri` if it is empty; its default experiment keeps artifacts under `artifact_root`.

    Several processes may call this at once. MLflow's own initialiser runs, in a process of its own: it takes about two
    seconds, most of them importing MLflow, and this process needs none of it.
    """
    if store_version(uri) is not None:
        return
    order = json.dumps({"uri": uri, "artifact_root": artifact_root})
    # -P: a folder `orchestrator` in the working directory must not stand before ours. The order may hold a password,
    # so it goes through a pipe, not onto the command line.
    command = [sys.executable, "-P", "-m", "orchestrator.tracker.create_store"]
    done = subprocess.run(command, input=order, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise TrackerUnavailableError(f"MLflow store {make_url(uri)} cannot be created: {last[0]}")
