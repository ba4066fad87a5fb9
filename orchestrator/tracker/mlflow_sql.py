"""Runs in bulk, straight into MLflow's own tables: one transaction for many runs, about 0.2 ms each on SQLite.

Through MLflow's client a run costs 10 to 70 ms. Only the schema versions named in `mlflow_store.KNOWN_VERSIONS` are
written this way; tests compare every field with what the client writes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, text

from orchestrator.tracker import artifacts
from orchestrator.tracker.entries import (
    EXPERIMENT_TAGS,
    NAME_LENGTH,
    NAME_TAG,
    OWN_TAGS,
    PARENT_TAG,
    Entry,
    parent_entry,
    shorten,
    trial_entry,
)
from orchestrator.tracker.mlflow_store import connect, errors_named
from orchestrator.tracker.records import ParentRun, RunStatus, TrialRun
from orchestrator.tracker.tracker import Tracker

Row = tuple[Any, ...]

RUN_IDS: BindParameter[str] = bindparam("runs", expanding=True)


@dataclass(frozen=True)
class BulkTable:
    """One of MLflow's tables: the columns we write, with their Postgres types, and what a row that is there becomes."""

    name: str
    columns: dict[str, str]
    on_conflict: str

    def insert(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Insert `rows`, whose values stand in the order of `columns`; no two may share a primary key."""
        if not rows:
            return
        target = f"INSERT INTO {self.name} ({', '.join(self.columns)})"
        if connection.dialect.name == "postgresql":
            # One statement for all rows: an array for each column.
            arrays = ", ".join(f"%s::{kind}[]" for kind in self.columns.values())
            statement = f"{target} SELECT * FROM unnest({arrays}) ON CONFLICT {self.on_conflict}"
            connection.exec_driver_sql(statement, tuple(list(column) for column in zip(*rows, strict=True)))
        else:
            marks = ", ".join("?" * len(self.columns))
            connection.exec_driver_sql(f"{target} VALUES ({marks}) ON CONFLICT {self.on_conflict}", list(rows))


RUNS = BulkTable(
    "runs",
    {
        "run_uuid": "varchar",
        "name": "varchar",
        "source_type": "varchar",
        "source_name": "varchar",
        "entry_point_name": "varchar",
        "user_id": "varchar",
        "status": "varchar",
        "start_time": "bigint",
        "end_time": "bigint",
        "source_version": "varchar",
        "lifecycle_stage": "varchar",
        "artifact_uri": "varchar",
        "experiment_id": "integer",
    },
    "(run_uuid) DO UPDATE SET status = excluded.status, end_time = excluded.end_time",
)
PARAMS = BulkTable("params", {"key": "varchar", "value": "varchar", "run_uuid": "varchar"}, "DO NOTHING")
TAGS = BulkTable(
    "tags",
    {"key": "varchar", "value": "varchar", "run_uuid": "varchar"},
    f"(key, run_uuid) DO UPDATE SET value = excluded.value WHERE tags.key <> '{NAME_TAG}'",
)
METRIC_COLUMNS = {
    "key": "varchar",
    "value": "double precision",
    "timestamp": "bigint",
    "step": "bigint",
    "is_nan": "boolean",
    "run_uuid": "varchar",
}
METRICS = BulkTable("metrics", METRIC_COLUMNS, "DO NOTHING")
LATEST_METRICS = BulkTable(
    "latest_metrics",
    METRIC_COLUMNS,
    "(key, run_uuid) DO UPDATE SET value = excluded.value, timestamp = excluded.timestamp",
)


@dataclass(frozen=True)
class Experiment:
    """Where runs of one name go."""

    id: int
    artifact_location: str

    def artifact_uri(self, run_id: str) -> str:
        """Where MLflow keeps the artifacts of a run of this experiment."""
        return f"{self.artifact_location}/{run_id}/artifacts"


class MlflowSql(Tracker):
    """The bulk writer for an MLflow store in SQLite or Postgres of a known schema version."""

    def __init__(self, uri: str, artifact_root: str) -> None:
        self._engine = connect(uri)
        self._artifact_root = artifact_root.rstrip("/")

    def prepare(self) -> None:
        with self._transaction() as connection:
            connection.execute(text("SELECT 1"))

    def write_parent(self, run: ParentRun) -> None:
        artifacts.check(run.artifacts)
        with self._transaction() as connection:
            experiment = find_experiment(connection, run.experiment, self._artifact_root)
            write_entries(connection, experiment, [parent_entry(run)])
            query = text("SELECT artifact_uri FROM runs WHERE run_uuid = :run")
            artifact_uri = connection.execute(query, {"run": run.run_id}).scalar_one()
        artifacts.upload(artifact_uri, run.artifacts)

    def write_trials(self, runs: Sequence[TrialRun]) -> None:
        # A row may be written once in a statement; sorted, so that two writers cannot wait for each other in a circle.
        latest = {run.run_id: run for run in runs}
        ordered = sorted(latest.values(), key=lambda run: (run.experiment, run.run_id))
        with self._transaction() as connection:
            for name, members in itertools.groupby(ordered, key=lambda run: run.experiment):
                experiment = find_experiment(connection, name, self._artifact_root)
                write_entries(connection, experiment, [trial_entry(run, run.parent_run_id) for run in members])

    def close_orphans(self, experiment: str, parent_run_id: str, status: RunStatus, end_ms: int) -> int:
        statement = text(
            "UPDATE runs SET status = :status, end_time = :end WHERE status IN ('RUNNING', 'SCHEDULED') AND "
            "experiment_id = (SELECT experiment_id FROM experiments WHERE workspace = 'default' AND name = :name) AND "
            f"(run_uuid = :parent OR EXISTS (SELECT 1 FROM tags WHERE tags.run_uuid = runs.run_uuid "
            f"AND tags.key = '{PARENT_TAG}' AND tags.value = :parent))"
        )
        values = {"status": status, "end": end_ms, "name": shorten(experiment, NAME_LENGTH), "parent": parent_run_id}
        with self._transaction() as connection:
            return connection.execute(statement, values).rowcount

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with errors_named(str(self._engine.url)), self._engine.begin() as connection:
            yield connection


def find_experiment(connection: Connection, name: str, artifact_root: str) -> Experiment:
    """The experiment called `name`: created if it is new, restored with its runs if it was deleted."""
    name = shorten(name, NAME_LENGTH)
    query = text(
        "SELECT experiment_id, artifact_location, lifecycle_stage FROM experiments "
        "WHERE workspace = 'default' AND name = :name"
    )
    row = connection.execute(query, {"name": name}).one_or_none()
    if row is None:
        _create_experiment(connection, name, artifact_root)
        row = connection.execute(query, {"name": name}).one()
    if row.lifecycle_stage == "deleted":
        _restore_experiment(connection, row.experiment_id)
    return Experiment(row.experiment_id, row.artifact_location)


def _create_experiment(connection: Connection, name: str, artifact_root: str) -> None:
    new = connection.execute(
        text(
            "INSERT INTO experiments (name, lifecycle_stage, creation_time, last_update_time, workspace) "
            "VALUES (:name, 'active', :now, :now, 'default') ON CONFLICT DO NOTHING RETURNING experiment_id"
        ),
        {"name": name, "now": _now_ms()},
    ).scalar_one_or_none()
    if new is None:  # another process was quicker, and has set the rest
        return
    connection.execute(
        text("UPDATE experiments SET artifact_location = :location WHERE experiment_id = :id"),
        {"location": f"{artifact_root}/{new}", "id": new},
    )
    for key, value in EXPERIMENT_TAGS.items():
        connection.execute(
            text("INSERT INTO experiment_tags (key, value, experiment_id) VALUES (:key, :value, :id)"),
            {"key": key, "value": value, "id": new},
        )


def _restore_experiment(connection: Connection, experiment: int) -> None:
    values = {"id": experiment, "now": _now_ms()}
    connection.execute(
        text("UPDATE experiments SET lifecycle_stage = 'active', last_update_time = :now WHERE experiment_id = :id"),
        values,
    )
    connection.execute(
        text("UPDATE runs SET lifecycle_stage = 'active', deleted_time = NULL WHERE experiment_id = :id"), values
    )


def _now_ms() -> int:
    return int(time.time() * 1000)


def write_entries(connection: Connection, experiment: Experiment, entries: Sequence[Entry]) -> None:
    """Write runs with all that belongs to them; `entries` hold each run once."""
    _forget_own_tags(connection, [entry.run_id for entry in entries])
    RUNS.insert(connection, [_run_row(entry, experiment) for entry in entries])
    PARAMS.insert(connection, _rows(entries, lambda entry: entry.params))
    TAGS.insert(connection, _rows(entries, lambda entry: entry.tags))
    metrics = [
        (key, value, entry.metrics_ms, 0, False, entry.run_id)
        for entry in entries
        for key, value in entry.metrics.items()
    ]
    METRICS.insert(connection, metrics)
    LATEST_METRICS.insert(connection, metrics)


def _forget_own_tags(connection: Connection, run_ids: Sequence[str]) -> None:
    """Drop our tags from those of `run_ids` that are there already: what failed once may have gone well since."""
    present = text("SELECT run_uuid FROM runs WHERE run_uuid IN :runs").bindparams(RUN_IDS)
    known = connection.execute(present, {"runs": run_ids}).scalars().all()
    if known:
        own = " OR ".join(f"key LIKE '{prefix}%'" for prefix in OWN_TAGS)
        delete = text(f"DELETE FROM tags WHERE run_uuid IN :runs AND ({own})").bindparams(RUN_IDS)
        connection.execute(delete, {"runs": known})


def _rows(entries: Sequence[Entry], texts: Callable[[Entry], dict[str, str]]) -> list[Row]:
    return [(key, value, entry.run_id) for entry in entries for key, value in texts(entry).items()]


def _run_row(entry: Entry, experiment: Experiment) -> Row:
    # The columns for the source are MLflow's old ones: it fills them with these constants and reads tags instead.
    source_type, source_name, entry_point, source_version = "UNKNOWN", "", "", ""
    artifact_uri = experiment.artifact_uri(entry.run_id)
    times = (entry.start_ms, entry.end_ms)
    run = (entry.run_id, entry.name, source_type, source_name, entry_point, entry.user, entry.status, *times)
    return (*run, source_version, "active", artifact_uri, experiment.id)
