"""The store's contract on each backend, and what is particular to opening a database."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from orchestrator.errors import StoreError
from orchestrator.store import schema
from orchestrator.store.contract import WORKER, StoreContract, asked, new_sweep, result, trials_of, with_worker
from orchestrator.store.engine import open_engine
from orchestrator.store.glance import SqliteGlance
from orchestrator.store.measuring_contract import MeasuringContract
from orchestrator.store.service_contract import ServiceContract
from orchestrator.store.states import Role
from orchestrator.store.store import Store
from orchestrator.store.upgrade import migrate
from orchestrator.store.version import HEAD, VERSION_TABLE


class TestSqlite(StoreContract, ServiceContract, MeasuringContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
        yield store
        store.close()


class TestPostgres(StoreContract, ServiceContract, MeasuringContract):
    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[Store]:
        store = Store.open(postgres_url)
        yield store
        store.close()


def test_what_is_made_is_for_its_owner_only_and_what_is_there_stays(tmp_path: Path) -> None:
    made, there = tmp_path / "home" / "store.db", tmp_path / "shared.db"
    there.touch(0o664)
    there.chmod(0o664)
    for file in (made, there):
        Store.open(f"sqlite:///{file}").create_token("ada", Role.VIEWER)
    assert [path.stat().st_mode & 0o777 for path in (made.parent, made, there)] == [0o700, 0o600, 0o664]


def test_who_looks_waits_for_nobody_who_writes(tmp_path: Path) -> None:
    """Nor forgets that others may have to wait for it."""
    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    _, secret = store.create_token("ada", Role.VIEWER)
    with store.engine.begin() as writing:
        began = time.monotonic()
        assert store.token_of(secret) is not None
        assert time.monotonic() - began < 10
        assert writing.execute(text("SELECT last_used FROM tokens")).scalar_one() is None
    assert store.token_of(secret) is not None
    assert store.tokens()[0].last_used is not None
    with store.engine.connect().execution_options(slotsweep_reading=True) as connection:
        assert connection.execute(text("PRAGMA busy_timeout")).scalar_one() == 60_000


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'a folder with spaces' / 'wägung.db'}"
    return str(request.getfixturevalue("postgres_url"))


def _shape(url: str) -> dict[str, set[str]]:
    inspector = inspect(open_engine(url))
    return {table: {column["name"] for column in inspector.get_columns(table)} for table in inspector.get_table_names()}


def test_migrations_lead_to_the_same_tables_as_the_schema(url: str) -> None:
    with open_engine(url).begin() as connection:
        migrate(connection)
    assert _shape(url) == {
        VERSION_TABLE: {"version_num"},
        **{name: set(table.columns.keys()) for name, table in schema.metadata.tables.items()},
    }
    Store.open(url).submit(new_sweep(), asked())


def test_migrations_know_every_column_index_and_constraint(tmp_path: Path) -> None:
    """Autogenerate finds nothing left to migrate."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    engine = open_engine(f"sqlite:///{tmp_path / 'store.db'}")
    with engine.begin() as connection:
        migrate(connection)
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, schema.metadata) == []


def test_another_version_is_refused_with_the_command_to_run(url: str) -> None:
    Store.open(url).close()
    with open_engine(url).begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0000'"))
    with pytest.raises(StoreError, match=f"schema 0000.*needs {HEAD}.*slotsweep db upgrade"):
        Store.open(url)


def test_the_database_of_another_program_is_refused(url: str, tmp_path: Path) -> None:
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE experiments (id INTEGER)"))
        connection.execute(text("CREATE TABLE runs (id INTEGER)"))
    with pytest.raises(StoreError, match="holds MLflow's tables"):
        Store.open(url)


def test_a_database_that_was_refused_is_let_go(postgres_url: str) -> None:
    engine = open_engine(postgres_url)
    others = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE experiments (id INTEGER)"))
        connection.execute(text("CREATE TABLE runs (id INTEGER)"))
    with pytest.raises(StoreError, match="holds MLflow's tables") as refused:
        Store.open(postgres_url)
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        deadline = time.monotonic() + 10  # the server takes a moment to end a session
        while (left := connection.execute(others).scalar_one()) and time.monotonic() < deadline:
            time.sleep(0.05)
    assert left == 0, refused
    engine.dispose()


def test_a_real_optuna_database_is_refused(tmp_path: Path) -> None:
    import optuna

    optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'optuna.db'}")
    with pytest.raises(StoreError, match="holds Optuna's tables"):
        Store.open(f"sqlite:///{tmp_path / 'optuna.db'}")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("no url", "is not a database URL"),
        ("mysql://host/db", "`mysql` are not supported"),
        ("postgresql://nobody@127.0.0.1:1/none?connect_timeout=2", "cannot open the database"),
    ],
)
def test_a_bad_url_is_one_clear_error(bad: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        Store.open(bad)


def test_a_file_that_is_no_database_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("these are notes, not a database, and long enough to be sure of it" * 20)
    with pytest.raises(StoreError, match="cannot open the database"):
        Store.open(f"sqlite:///{path}")


def test_a_password_is_never_shown(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        Store.open("postgresql://user:secret@127.0.0.1:1/none?connect_timeout=2")
    assert "secret" not in str(caught.value)


def test_four_processes_open_one_empty_database_at_once(url: str) -> None:
    code = "import sys; from orchestrator.store.store import Store; Store.open(sys.argv[1]).sweeps()"
    processes = [subprocess.Popen([sys.executable, "-P", "-c", code, url]) for _ in range(4)]
    assert [process.wait(180) for process in processes] == [0, 0, 0, 0]
    assert _shape(url).keys() >= {"sweeps", "trials"}


def test_who_opens_a_file_that_another_writes_for_the_first_time_waits(tmp_path: Path) -> None:
    """SQLite itself does not wait here, whatever its timeout: the switch to WAL would meet the other's lock."""
    file = tmp_path / "store.db"
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, other.execute, ["ROLLBACK"])
    release.start()
    Store.open(f"sqlite:///{file}").close()
    release.join()
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()


def test_sweeps_are_found_by_the_beginning_of_their_id(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    identity = store.submit(new_sweep(), asked()).sweep
    assert store.sweep(identity[:6]).id == identity
    for wrong in ("", "%", "zzzz"):
        with pytest.raises(StoreError, match="no sweep"):
            store.sweep(wrong)


def test_ten_thousand_trials_are_listed_in_under_a_second(tmp_path: Path, pace: float) -> None:
    import time

    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    store.submit(new_sweep(), asked(100, 100))
    began = time.perf_counter()
    [row] = store.sweeps()
    assert time.perf_counter() - began < 1.0 * pace
    assert row.counts.pending == 10_000


def test_a_foreign_engine_can_read_the_file(tmp_path: Path) -> None:
    """Nothing in the file needs slotsweep: any SQLite client can read it."""
    Store.open(f"sqlite:///{tmp_path / 'store.db'}").submit(new_sweep(), asked())
    with create_engine(f"sqlite:///{tmp_path / 'store.db'}").connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM trials")).scalar_one() == 6


def test_a_glance_sees_what_the_store_sees(tmp_path: Path) -> None:
    """`plan` looks at a SQLite file without SQLAlchemy; both ways of looking agree."""
    file = tmp_path / "store.db"
    store = with_worker(Store.open(f"sqlite:///{file}"))
    submitted = store.submit(new_sweep(), asked(3, 3))
    lease = store.claim(submitted.sweep, trials_of(store, submitted.sweep)[:5], WORKER, 60)
    assert lease is not None
    store.accept(lease.attempt, WORKER, [result(trial) for trial in lease.trials])
    glance = SqliteGlance(file)
    keys = [key for _, _, key in asked(4, 4)]
    assert glance.done_keys(keys) == store.done_keys(keys)
    assert len(glance.done_keys(keys)) == 5
    for most in (2, 10):
        assert glance.cell_costs({"recency"}, most) == store.cell_costs({"recency"}, most)
        assert glance.stream_costs(most) == store.stream_costs(most)
    assert len(glance.cell_costs({"recency"}, 2)) == 2
    assert glance.runs(5) == store.runs(5)
    assert glance.crew_seen() == store.crew_seen()


def test_a_glance_refuses_what_the_store_refuses(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    Store.open(f"sqlite:///{file}").close()
    with open_engine(f"sqlite:///{file}").begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0000'"))
    with pytest.raises(StoreError, match="slotsweep db upgrade"):
        SqliteGlance(file)
    file.write_text("no database" * 500)
    with pytest.raises(StoreError, match="cannot read the database"):
        SqliteGlance(file)
