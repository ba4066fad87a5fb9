"""Runs in bulk, straight into MLflow's own tables: one transaction for many runs, about 0.2 ms each on SQLite.

Through MLflow's client a run costs 10 to 70 ms. Only the schema versions named in `mlflow_store.KNOWN_VERSIONS` are
written this way; tests compare every field with what the client writes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, text

from orchestrator.tracker import artifacts
from orchestrator.tracker.entries import (
    NAME_LENGTH,
    NAME_TAG,
    OWN_TAGS,
    PARENT_TAG,
    Entry,
    experiment_tags,
    parent_entry,
    shorten,
    trial_entry,
)
from orchestrator.tracker.mlflow_store import connect, errors_named
from orchestrator.tracker.records import ParentRun, Place, RunStatus, TrialRun
from orchestrator.tracker.tracker import Tracker

Row = tuple[Any, ...]

WRITERS_LOCK = 0x510752
"""Key of the Postgres lock that bulk writers take in turn."""

RUN_IDS: BindParameter[str] = bindparam("runs", expanding=True)


@dataclass(frozen=True)
class BulkTable:
    """One of MLflow's tables: the columns we write, and what becomes of a row that is there already."""

    name: str
    columns: tuple[str, ...]
    on_conflict: str

    def append(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Add `rows`, none of which can be there."""
        if not rows:
            return
        columns = ", ".join(self.columns)
        if connection.dialect.name == "postgresql":
            cursor = connection.connection.cursor()
            with cursor.copy(f"COPY {self.name} ({columns}) FROM STDIN") as copy:
                for row in sorted(rows):  # in the order of the primary key's index, which begins with `key`
                    copy.write_row(row)
        else:
            marks = ", ".join("?" * len(self.columns))
            connection.exec_driver_sql(f"INSERT INTO {self.name} ({columns}) VALUES ({marks})", list(rows))

    def news(self, connection: Connection, run_ids: Sequence[str], rows: Sequence[Row]) -> list[Row]:
        """Those of `rows` that are not there as they are; all belong to the runs `run_ids`."""
        query = text(f"SELECT {', '.join(self.columns)} FROM {self.name} WHERE run_uuid IN :runs").bindparams(RUN_IDS)
        there = set(map(tuple, connection.execute(query, {"runs": run_ids}).all()))
        return [row for row in rows if row not in there]

    def upsert(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Add `rows` or change what is there."""
        if not rows:
            return
        columns, values = ", ".join(self.columns), ", ".join(f":{name}" for name in self.columns)
        statement = text(f"INSERT INTO {self.name} ({columns}) VALUES ({values}) ON CONFLICT {self.on_conflict}")
        connection.execute(statement, [dict(zip(self.columns, row, strict=True)) for row in rows])


RUNS = BulkTable(
    "runs",
    (
        "run_uuid",
        "name",
        "source_type",
        "source_name",
        "entry_point_name",
        "user_id",
        "status",
        "start_time",
        "end_time",
        "source_version",
        "lifecycle_stage",
        "artifact_uri",
        "experiment_id",
    ),
    "(run_uuid) DO UPDATE SET status = excluded.status, end_time = excluded.end_time",
)
PARAMS = BulkTable("params", ("key", "value", "run_uuid"), "DO NOTHING")
TAGS = BulkTable(
    "tags",
    ("key", "value", "run_uuid"),
    f"(key, run_uuid) DO UPDATE SET value = excluded.value WHERE tags.key <> '{NAME_TAG}'",
)
EXPERIMENT_TAGS = BulkTable(
    "experiment_tags",
    ("key", "value", "experiment_id"),
    "(key, experiment_id) DO UPDATE SET value = excluded.value",
)
METRIC_COLUMNS = ("key", "value", "timestamp", "step", "is_nan", "run_uuid")
METRICS = BulkTable("metrics", METRIC_COLUMNS, "DO NOTHING")
LATEST_METRICS = BulkTable(
    "latest_metrics",
    METRIC_COLUMNS,
    "(key, run_uuid) DO UPDATE SET value = excluded.value, timestamp = excluded.timestamp, step = excluded.step",
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
            _tag_experiment(connection, experiment, run)
            query = text("SELECT artifact_uri FROM runs WHERE run_uuid = :run")
            artifact_uri = connection.execute(query, {"run": run.run_id}).scalar_one()
        artifacts.upload(artifact_uri, run.artifacts)

    def write_trials(self, runs: Sequence[TrialRun]) -> None:
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

    def find(self, experiment: str, run_id: str) -> Place | None:
        query = text("SELECT experiment_id FROM runs WHERE run_uuid = :run")
        with errors_named(str(self._engine.url)), self._engine.connect() as connection:
            found = connection.execute(query, {"run": run_id}).scalar_one_or_none()
        return None if found is None else Place(str(found), run_id)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction that no other bulk writer works beside: what is not in the store when it begins stays out."""
        with errors_named(str(self._engine.url)), self._engine.begin() as connection:
            if connection.dialect.name == "postgresql":  # on SQLite the transaction itself has the only write lock
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": WRITERS_LOCK})
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


def _tag_experiment(connection: Connection, experiment: Experiment, run: ParentRun) -> None:
    query = text("SELECT key, value FROM experiment_tags WHERE experiment_id = :id")
    there: dict[str, str] = dict(connection.execute(query, {"id": experiment.id}).all())
    wanted = experiment_tags(run, there)
    EXPERIMENT_TAGS.upsert(connection, [(key, value, experiment.id) for key, value in wanted.items()])


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
    """Write runs with all that belongs to them; `entries` hold each run once. No other writer may be at work."""
    known = _known(connection, [entry.run_id for entry in entries])
    for table, rows in _rows(experiment, [entry for entry in entries if entry.run_id not in known]):
        table.append(connection, rows)
    if known:
        again = [entry for entry in entries if entry.run_id in known]
        _forget_own_tags(connection, again)
        for table, rows in _rows(experiment, again):
            table.upsert(connection, table.news(connection, list(known), rows))


def _known(connection: Connection, run_ids: Sequence[str]) -> set[str]:
    """Those of `run_ids` that are in the store."""
    query = text("SELECT run_uuid FROM runs WHERE run_uuid IN :runs").bindparams(RUN_IDS)
    return set(connection.execute(query, {"runs": run_ids}).scalars())


def _forget_own_tags(connection: Connection, entries: Sequence[Entry]) -> None:
    """Drop those of our tags that `entries` no longer have: what failed once may have gone well since."""
    tags = {entry.run_id: entry.tags for entry in entries}
    own = " OR ".join(f"key LIKE '{prefix}%'" for prefix in OWN_TAGS)
    query = text(f"SELECT key, run_uuid FROM tags WHERE run_uuid IN :runs AND ({own})").bindparams(RUN_IDS)
    there = connection.execute(query, {"runs": list(tags)}).all()
    gone = [{"key": key, "run": run} for key, run in there if key not in tags[run]]
    if gone:
        connection.execute(text("DELETE FROM tags WHERE key = :key AND run_uuid = :run"), gone)


def _rows(experiment: Experiment, entries: Sequence[Entry]) -> list[tuple[BulkTable, list[Row]]]:
    """Rows of `entries` by table, in an order that foreign keys allow."""
    metrics: list[Row] = [
        (key, value, entry.metrics_ms, 0, False, entry.run_id)
        for entry in entries
        for key, value in entry.metrics.items()
    ]
    steps: list[Row] = [
        (key, value, ms, step, False, entry.run_id)
        for entry in entries
        for key, value, ms, step in entry.points(entry.series)
    ]
    last: list[Row] = [
        (key, value, ms, step, False, entry.run_id)
        for entry in entries
        for key, value, ms, step in entry.last_points(entry.series)
    ]
    return [
        (RUNS, [_run_row(entry, experiment) for entry in entries]),
        (PARAMS, [(key, value, entry.run_id) for entry in entries for key, value in entry.params.items()]),
        (TAGS, [(key, value, entry.run_id) for entry in entries for key, value in entry.tags.items()]),
        (METRICS, metrics + steps),
        (LATEST_METRICS, metrics + last),
    ]


def _run_row(entry: Entry, experiment: Experiment) -> Row:
    # The columns for the source are MLflow's old ones: it fills them with these constants and reads tags instead.
    source_type, source_name, entry_point, source_version = "UNKNOWN", "", "", ""
    artifact_uri = experiment.artifact_uri(entry.run_id)
    times = (entry.start_ms, entry.end_ms)
    run = (entry.run_id, entry.name, source_type, source_name, entry_point, entry.user, entry.status, *times)
    return (*run, source_version, "active", artifact_uri, experiment.id)
