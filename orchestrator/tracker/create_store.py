"""Creates an empty MLflow store, in a process of its own: `python -m orchestrator.tracker.create_store`.

Reads {"uri", "artifact_root"} as JSON from standard input. Whoever comes second waits and finds the store there.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event, make_url, text

from orchestrator.tracker.mlflow_store import connect, schema_version, sqlite_file
from orchestrator.tracker.quiet import quiet_mlflow

ADVISORY_LOCK = 0x510751
"""Key of the Postgres lock under which the schema is created; any constant that no one else uses."""

ASIDE = ".mlflow-new-"


def create(uri: str, artifact_root: str) -> None:
    """Create the store at `uri` unless another process did so meanwhile."""
    url = make_url(uri)
    if url.get_backend_name() == "sqlite":
        _create_sqlite(sqlite_file(url), artifact_root)
        return
    engine = connect(uri).execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": ADVISORY_LOCK})
        if schema_version(engine) is None:
            _initialise(uri, artifact_root)


def _create_sqlite(file: Path, artifact_root: str) -> None:
    """Build the store aside and move it into place, so that a process killed half-way leaves none rather than half."""
    from filelock import FileLock

    file = file.absolute()
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_name(f"{file.name}.lock")):
        engine = connect(f"sqlite:///{file}")
        if schema_version(engine) is not None:
            return
        for left_over in file.parent.glob(f"{ASIDE}*"):
            shutil.rmtree(left_over)
        aside = Path(tempfile.mkdtemp(dir=file.parent, prefix=ASIDE))
        _initialise(f"sqlite:///{aside / file.name}", artifact_root)
        _settle(aside / file.name)
        os.replace(aside / file.name, file)
        shutil.rmtree(aside)


def _initialise(uri: str, artifact_root: str) -> None:
    quiet_mlflow()
    event.listen(Engine, "connect", _do_not_wait_for_the_disk)
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(uri, artifact_root).engine.dispose()


def _do_not_wait_for_the_disk(connection: Any, _: object) -> None:
    # Seventy migrations, each waiting for the disk, only matter once the whole file is moved into place.
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


def _settle(file: Path) -> None:
    """Let readers and the writer work side by side from now on, and put the whole file on the disk."""
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    with open(file, "rb") as content:
        os.fsync(content.fileno())


if __name__ == "__main__":
    create(**json.load(sys.stdin))
