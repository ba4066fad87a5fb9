"""Upgrading databases that people have: everything stays, nothing half-done, never under a living run."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, Inspector, inspect, text

from orchestrator.errors import RequestError, StoreError
from orchestrator.store.clock import lease_now
from orchestrator.store.contract import WORKER, asked, new_sweep, trials_of, with_worker
from orchestrator.store.engine import open_engine
from orchestrator.store.records import Counts
from orchestrator.store.store import Store
from orchestrator.store.upgrade import Upgrade, upgradable_version, upgrade
from orchestrator.store.version import HEAD, VERSION_TABLE
from tests.orchestrator.store.old_databases import FIRST, fill_first_schema, rows_of, write_first_schema

Postgres = Callable[..., AbstractContextManager[str]]


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    path = tmp_path / "a folder with 100% spaces" / "wägung.db"
    write_first_schema(path)
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a database of the first schema."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('old_file')}"
    url = str(request.getfixturevalue("postgres_url"))
    fill_first_schema(url, tmp_path / "scratch.db")
    return url


def test_an_old_database_is_refused_with_the_command_to_run(old: str) -> None:
    with pytest.raises(StoreError, match=f"has schema {FIRST}.*needs {HEAD}.*run `slotsweep db upgrade`"):
        Store.open(old)


def test_every_row_is_there_after_the_upgrade(old: str) -> None:
    engine = open_engine(old)
    before = rows_of(engine)
    done = upgrade(engine)
    assert (done.before, done.after) == (FIRST, HEAD)
    after = rows_of(engine)
    for name in before.keys() - {VERSION_TABLE}:
        columns = before[name][0].keys()
        assert [{column: row[column] for column in columns} for row in after[name]] == before[name], name

    store = Store(engine)
    counts = {row.name: (row.state, row.counts) for row in store.sweeps()}
    assert counts == {
        "finished": ("done", Counts(done=12)),
        "failed": ("failed", Counts(done=1, failed=2)),
        "paused": ("paused", Counts(done=4, pending=20)),
    }
    [failed] = [row for row in store.sweeps() if row.name == "failed"]
    assert {row["reason"] for row in store.trial_rows(failed.id)} == {"user_error", "not_a_number", None}
    store.close()


def test_an_upgraded_database_works_and_numbers_its_attempts_on(old: str) -> None:
    """An attempt's id is its fencing token: one that was given out must never be given out again."""
    engine = open_engine(old)
    upgrade(engine)
    newest = max(row["id"] for row in rows_of(engine)["attempts"])
    store = with_worker(Store.open(old))
    submitted = store.submit(new_sweep(), asked())
    lease = store.claim(submitted.sweep, trials_of(store, submitted.sweep), WORKER, 60)
    assert lease is not None
    assert lease.attempt > newest
    store.close()


def test_an_upgraded_database_is_like_a_new_one(old: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    upgraded = open_engine(old)
    upgrade(upgraded)
    if upgraded.dialect.name == "sqlite":
        assert _shape(upgraded) == _shape(Store.open(f"sqlite:///{tmp_path / 'new.db'}").engine)
        return
    database: Postgres = request.getfixturevalue("postgres_database")
    with database() as url:
        fresh = Store.open(url)
        assert _shape(upgraded) == _shape(fresh.engine)
        fresh.close()


def _shape(engine: Engine) -> dict[str, Any]:
    """Columns, constraints, indexes and triggers, in an order and with names that do not depend on their history."""
    inspector = inspect(engine)
    shape: dict[str, Any] = {table: _table_shape(inspector, table) for table in inspector.get_table_names()}
    if engine.dialect.name == "sqlite":
        master = "SELECT type, name, tbl_name, sql LIKE '%AUTOINCREMENT%' FROM sqlite_master ORDER BY name"
    else:
        master = "SELECT tgname, tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal"
    with engine.connect() as connection:
        shape["master"] = {tuple(row) for row in connection.execute(text(master))}
    return shape


def _table_shape(inspector: Inspector, table: str) -> dict[str, Any]:
    columns = inspector.get_columns(table)
    return {
        "columns": {c["name"]: (str(c["type"]), c["nullable"], c["default"]) for c in columns},
        "key": inspector.get_pk_constraint(table)["constrained_columns"],
        "references": {
            (*key["constrained_columns"], key["referred_table"]) for key in inspector.get_foreign_keys(table)
        },
        "checks": {(check["name"], check["sqltext"]) for check in inspector.get_check_constraints(table)},
        "unique": {tuple(unique["column_names"]) for unique in inspector.get_unique_constraints(table)},
        "indexes": {(index["name"], tuple(index["column_names"])) for index in inspector.get_indexes(table)},
    }


def test_upgrading_twice_changes_nothing_and_makes_no_second_copy(old_file: Path) -> None:
    engine = open_engine(f"sqlite:///{old_file}")
    first = upgrade(engine)
    assert first.backup == old_file.with_name(f"{old_file.name}.before-{HEAD}")
    files = sorted(old_file.parent.iterdir())
    assert upgrade(engine) == Upgrade(HEAD, HEAD, None)
    assert sorted(old_file.parent.iterdir()) == files


def test_the_copy_holds_what_was_only_in_the_write_ahead_log(old_file: Path) -> None:
    engine = open_engine(f"sqlite:///{old_file}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE sweeps SET name = 'renamed' WHERE name = 'finished'"))
    assert old_file.with_name(f"{old_file.name}-wal").stat().st_size > 0
    before = rows_of(engine)
    backup = upgrade(engine).backup
    assert backup is not None
    copy = open_engine(f"sqlite:///{backup}")
    assert rows_of(copy) == before
    assert upgrade(copy).before == FIRST, "one can go back, and forward again"


def test_an_earlier_copy_is_never_replaced(old_file: Path) -> None:
    engine = open_engine(f"sqlite:///{old_file}")
    first = upgrade(engine).backup
    assert first is not None
    engine.dispose()
    content = first.read_bytes()
    shutil.copy(first, old_file)
    second = upgrade(open_engine(f"sqlite:///{old_file}")).backup
    assert second == first.with_name(f"{first.name}.2")
    assert first.read_bytes() == content


def test_without_a_copy_nothing_is_upgraded(old_file: Path) -> None:
    old_file.with_name(f"{old_file.name}.before-{HEAD}").symlink_to(old_file.parent / "missing" / "file")
    engine = open_engine(f"sqlite:///{old_file}")
    before = rows_of(engine)
    with pytest.raises(StoreError, match=r"was not upgraded.*could not be copied"):
        upgrade(engine)
    assert rows_of(engine) == before


def test_a_migration_that_fails_changes_nothing(old: str) -> None:
    engine = open_engine(old)
    with engine.begin() as connection:  # the last thing that the migration to 0002 makes is a trigger of this name
        if engine.dialect.name == "sqlite":
            connection.execute(
                text("CREATE TRIGGER sweeps_state BEFORE UPDATE ON sweeps WHEN NEW.name IS NULL BEGIN SELECT 1; END")
            )
        else:
            connection.execute(
                text(
                    "CREATE FUNCTION sweeps_state_is_illegal() RETURNS trigger LANGUAGE plpgsql "
                    "AS $$ BEGIN RETURN NEW; END $$"
                )
            )
    before, shape = rows_of(engine), _shape(engine)
    with pytest.raises(StoreError, match=r"was not upgraded, and nothing changed: .*already exists") as caught:
        upgrade(engine)
    assert len(str(caught.value).splitlines()) == 1
    assert (rows_of(engine), _shape(engine)) == (before, shape)


def test_a_database_that_a_run_uses_is_upgraded_only_by_force(old: str) -> None:
    engine = open_engine(old)
    sweep = _lease(engine, seconds=60)
    with pytest.raises(RequestError, match=f"sweep {sweep} is running.*--force"):
        upgrade(engine)
    assert rows_of(engine)[VERSION_TABLE] == [{"version_num": FIRST}]
    assert upgrade(engine, force=True).after == HEAD


@pytest.mark.parametrize(("seconds", "clock"), [(-1, None), (60, "another boot")])
def test_a_lease_that_ran_out_or_died_with_its_host_stops_nobody(old: str, seconds: float, clock: str | None) -> None:
    engine = open_engine(old)
    _lease(engine, seconds, clock)
    assert upgrade(engine).after == HEAD


def _lease(engine: Engine, seconds: float, clock: str | None = None) -> str:
    """Open an attempt of the paused sweep, as the first schema had it; the sweep."""
    with engine.begin() as connection:
        now_clock, now = lease_now(connection)
        values = {"clock": clock or now_clock, "until": now + seconds, "now": time.time()}
        return str(
            connection.execute(
                text(
                    "INSERT INTO attempts (sweep, state, trials, lease_clock, leased_until, started) "
                    "SELECT id, 'open', 1, :clock, :until, :now FROM sweeps WHERE name = 'paused' RETURNING sweep"
                ),
                values,
            ).scalar_one()
        )


def test_a_database_of_a_later_version_is_refused(old: str) -> None:
    engine = open_engine(old)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    for look in (upgradable_version, upgrade):
        with pytest.raises(StoreError, match=f"schema 9999.*this slotsweep \\(schema {HEAD}\\) does not know"):
            look(engine)


def test_a_database_that_does_not_say_its_version_is_refused(old: str) -> None:
    engine = open_engine(old)
    with engine.begin() as connection:
        connection.execute(text(f"DELETE FROM {VERSION_TABLE}"))
    with pytest.raises(StoreError, match="does not say which schema"):
        upgradable_version(engine)


def test_what_is_not_ours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with pytest.raises(RequestError, match="is empty"):
        upgradable_version(open_engine(f"sqlite:///{path}"))
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE studies (study_id INTEGER)")
    with pytest.raises(StoreError, match="Optuna's tables"):
        upgradable_version(open_engine(f"sqlite:///{path}"))
    path = tmp_path / "text.db"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="cannot open"):
        upgradable_version(open_engine(f"sqlite:///{path}"))
