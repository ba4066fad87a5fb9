"""`slotsweep db upgrade` as a user meets it, on a database of the first schema."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from orchestrator.plan import code_fingerprint
from orchestrator.settings import Settings
from orchestrator.store.engine import open_engine
from orchestrator.store.version import HEAD
from tests.orchestrator.store.old_databases import FIRST, fill_first_schema, rows_of, write_first_schema


@pytest.fixture(params=["sqlite", "postgresql"])
def old(
    request: pytest.FixtureRequest, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """Settings whose database has the first schema."""
    if request.param == "sqlite":
        assert settings.database_file is not None
        write_first_schema(settings.database_file)
        return settings
    url = str(request.getfixturevalue("postgres_url"))
    fill_first_schema(url, tmp_path / "scratch.db")
    monkeypatch.setenv("SLOTSWEEP_DATABASE_URL", url)
    return Settings.read()


def test_an_old_database_is_refused_upgraded_and_used(slotsweep, old: Settings) -> None:
    engine = open_engine(old.database_url)
    before = rows_of(engine)
    refused = slotsweep("status")
    assert (refused.code, "slotsweep db upgrade" in refused.err) == (3, True)
    assert "Traceback" not in refused.err

    ran = slotsweep("db", "upgrade", "--json")
    assert ran.code == 0, ran.err
    assert f"from {FIRST} to {HEAD}" in ran.err
    assert (ran.json["before"], ran.json["after"]) == (FIRST, HEAD)
    if old.database_file is None:
        assert "take a dump" in ran.err
        assert ran.json["backup"] is None
        assert "password" not in ran.err
    else:
        assert ran.json["backup"] == f"{old.database_file}.before-{HEAD}"
        assert ran.json["backup"] in ran.err
        assert Path(ran.json["backup"]).exists()

    again = slotsweep("db", "upgrade", "--json")
    assert (again.code, f"already at {HEAD}" in again.err) == (0, True)
    assert again.json == {"before": HEAD, "after": HEAD, "backup": None}

    sweeps = {row["name"]: row["id"] for row in before["sweeps"]}
    metrics = {row["trial"]: row["metrics"] for row in before["results"]}
    keys = {row["key"]: row["id"] for row in before["trials"]}
    rows = json.loads(slotsweep("results", sweeps["finished"], "--format", "json").out)
    assert len(rows) == 12
    for row in rows:
        shown = {name.removeprefix("metrics."): value for name, value in row.items() if name.startswith("metrics.")}
        assert shown == metrics[keys[row["key"]]]


def test_a_paused_sweep_of_an_old_database_is_resumed(slotsweep, old: Settings) -> None:
    """Its pinned code is not this code; it is told to be, and to be quick: the database is on trial here."""
    assert slotsweep("db", "upgrade").code == 0
    engine = open_engine(old.database_url)
    before = rows_of(engine)
    [paused] = [row["id"] for row in before["sweeps"] if row["name"] == "paused"]
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE cells SET fingerprint = :code, episodes = 2"),
            {"code": code_fingerprint("frontier", "associative_recall", "recency", "cpu")},
        )
    ran = slotsweep("run", paused, "--executor", "inline", "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["done"], ran.json["failed"]) == (24, 0)
    after = rows_of(engine)
    kept = {row["trial"]: row for row in before["results"]}
    assert {row["trial"]: row for row in after["results"] if row["trial"] in kept} == kept
    assert len(after["results"]) == len(kept) + 20
    assert {row["state"] for row in after["sweeps"] if row["id"] == paused} == {"done"}


def test_there_may_be_nothing_to_upgrade(slotsweep, settings: Settings) -> None:
    ran = slotsweep("db", "upgrade")
    assert (ran.code, "no database at" in ran.err) == (2, True)
    assert settings.database_file is not None
    assert not settings.database_file.exists()


def test_a_foreign_database_is_refused(slotsweep, tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE experiments (id INTEGER); CREATE TABLE runs (id INTEGER)")
    ran = slotsweep("db", "upgrade", SLOTSWEEP_DATABASE_URL=f"sqlite:///{path}")
    assert (ran.code, "MLflow's tables" in ran.err) == (3, True)
    assert "Traceback" not in ran.err
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM sqlite_master").fetchone() == (2,)
