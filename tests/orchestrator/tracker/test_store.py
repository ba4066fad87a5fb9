"""An MLflow store is created once, at MLflow's own version, whoever asks and whatever was there before."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.store.db.utils import _get_latest_schema_revision
from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam, SqlRun, SqlTag
from sqlalchemy import create_engine, text

from orchestrator.tracker import mlflow_store, opening
from orchestrator.tracker.mlflow_client import MlflowClientTracker
from orchestrator.tracker.mlflow_sql import LATEST_METRICS, METRICS, PARAMS, RUNS, TAGS, MlflowSql
from orchestrator.tracker.mlflow_store import KNOWN_VERSIONS, ensure_store, store_version
from orchestrator.tracker.opening import absolute_root, open_tracker
from orchestrator.tracker.tracker import TrackerRefusedError, TrackerUnavailableError

PREPARE = "import sys; from orchestrator.tracker.opening import open_tracker; open_tracker(*sys.argv[1:]).prepare()"


def prepare_in_processes(count: int, uri: str, root: Path) -> list[tuple[int | None, bytes]]:
    """Exit status and error output of `count` processes that prepare `uri` at once."""
    command = [sys.executable, "-c", PREPARE, uri, str(root)]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(count)]
    return [(process.wait(), process.communicate()[1]) for process in started]


def test_a_new_store_is_at_mlflows_own_version_and_is_written_in_bulk(tmp_path, parent) -> None:
    folder = tmp_path / "with space and ü"
    folder.mkdir()
    (folder / "mlflow.db").touch()  # an empty file is an empty store
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    tracker = open_tracker(uri, str(tmp_path / "artifacts"))
    tracker.prepare()
    assert store_version(uri) == _get_latest_schema_revision()
    assert store_version(uri) in KNOWN_VERSIONS
    assert isinstance(tracker._writer(), MlflowSql)
    tracker.write_parent(parent())
    tracker.close()
    experiments = {one.name: one.artifact_location for one in MlflowClient(uri).search_experiments()}
    assert experiments == {
        "Default": str(tmp_path / "artifacts" / "0"),
        "recall-frontier": str(tmp_path / "artifacts" / "1"),
    }
    with sqlite3.connect(folder / "mlflow.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert sorted(path.name for path in folder.iterdir() if "-" not in path.name) == ["mlflow.db", "mlflow.db.lock"]


def test_four_processes_on_an_empty_sqlite_store_all_succeed(tmp_path) -> None:
    uri = f"sqlite:///{tmp_path / 'new folder' / 'mlflow.db'}"
    assert prepare_in_processes(4, uri, tmp_path) == [(0, b"")] * 4
    assert store_version(uri) == _get_latest_schema_revision()


def test_two_processes_on_an_empty_postgres_store_both_succeed(postgres_url, tmp_path) -> None:
    assert prepare_in_processes(2, postgres_url, tmp_path) == [(0, b"")] * 2
    assert store_version(postgres_url) == _get_latest_schema_revision()


def test_creation_killed_half_way_leaves_no_half_store(tmp_path) -> None:
    file = tmp_path / "mlflow.db"
    order = f'{{"uri": "sqlite:///{file}", "artifact_root": "{tmp_path}"}}'
    command = [sys.executable, "-m", "orchestrator.tracker.create_store"]
    creating = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)
    assert creating.stdin is not None
    creating.stdin.write(order)
    creating.stdin.close()
    while not any(path.stat().st_size > 100_000 for path in tmp_path.glob(".mlflow-new-*/mlflow.db")):
        assert creating.poll() is None
        time.sleep(0.005)
    os.killpg(creating.pid, signal.SIGKILL)
    creating.wait()
    assert not file.exists()
    ensure_store(f"sqlite:///{file}", str(tmp_path))
    assert store_version(f"sqlite:///{file}") == _get_latest_schema_revision()
    assert list(tmp_path.glob(".mlflow-new-*")) == []


def test_a_database_of_somebody_else_is_refused_with_the_reason(tmp_path, postgres_url) -> None:
    for url in (f"sqlite:///{tmp_path / 'optuna.db'}", postgres_url):
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE studies (study_id INTEGER PRIMARY KEY)"))
            connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        engine.dispose()
        with pytest.raises(TrackerRefusedError, match=r"not MLflow's \(studies, .*of its own"):
            open_tracker(url, str(tmp_path)).prepare()


def test_a_store_of_an_unknown_version_is_written_through_the_client(
    sqlite_store, parent, trial, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(mlflow_store, "KNOWN_VERSIONS", frozenset({"another"}))
    tracker = open_tracker(sqlite_store, "artifacts")
    tracker.write_parent(parent())
    tracker.write_trials([trial(0)])
    assert isinstance(tracker._writer(), MlflowClientTracker)
    assert "is not known" in caplog.text
    viewer = MlflowClient(sqlite_store)
    experiment = viewer.get_experiment_by_name("recall-frontier")
    assert experiment.artifact_location.startswith(str(Path("artifacts").absolute()))
    assert len(viewer.search_runs([experiment.experiment_id])) == 2


def test_a_store_that_needs_an_upgrade_says_so_and_is_left_alone(sqlite_store, tmp_path, parent) -> None:
    with sqlite3.connect(tmp_path / "mlflow.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'b7e2c1a4d9f3'")
    connection.close()
    with pytest.raises(TrackerUnavailableError, match="mlflow db upgrade"):
        open_tracker(sqlite_store, str(tmp_path)).write_parent(parent())


def test_a_store_in_memory_is_refused(tmp_path) -> None:
    for uri in ("sqlite://", "sqlite:///:memory:"):
        with pytest.raises(TrackerRefusedError, match="name a file"):
            open_tracker(uri, str(tmp_path)).prepare()


def test_a_store_that_cannot_be_reached_is_unavailable_without_naming_the_password(tmp_path) -> None:
    with pytest.raises(TrackerUnavailableError) as refused:
        open_tracker("postgresql://me:secret@127.0.0.1:1/mlflow", str(tmp_path)).prepare()
    assert "secret" not in str(refused.value)
    with pytest.raises(TrackerUnavailableError) as refused:
        open_tracker("http://me:secret@127.0.0.1:1", str(tmp_path)).prepare()
    assert "secret" not in str(refused.value)


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrackerUnavailableError, match="cannot be created"):
        open_tracker(f"sqlite:///{tmp_path / 'file' / 'mlflow.db'}", str(tmp_path)).prepare()


def test_the_columns_we_write_are_all_that_mlflow_needs() -> None:
    models = {SqlRun: RUNS, SqlParam: PARAMS, SqlTag: TAGS, SqlMetric: METRICS, SqlLatestMetric: LATEST_METRICS}
    for model, written in models.items():
        columns = {column.name: column for column in model.__table__.columns}
        assert model.__tablename__ == written.name
        assert set(written.columns) <= set(columns)
        assert set(columns) - set(written.columns) <= {"deleted_time"}


def test_a_server_gets_no_artifact_root_and_folders_are_made_absolute() -> None:
    assert isinstance(open_tracker("http://127.0.0.1:5000", "artifacts"), MlflowClientTracker)
    assert isinstance(open_tracker("postgresql+psycopg://host/db", "artifacts"), opening.SqlStoreTracker)
    assert absolute_root("artifacts") == str(Path("artifacts").absolute())
    assert absolute_root("s3://bucket/folder") == "s3://bucket/folder"


def test_opening_and_writing_in_bulk_load_no_mlflow(empty_store, tmp_path) -> None:
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    program = PREPARE + "; print('mlflow' in sys.modules)"
    command = [sys.executable, "-c", program, f"sqlite:///{tmp_path / 'mlflow.db'}", str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
