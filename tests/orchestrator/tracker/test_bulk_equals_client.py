"""The bulk writer against MLflow's client: the same runs, read back through MLflow's public API, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import mlflow
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import ViewType

from orchestrator.tracker.mlflow_client import MlflowClientTracker
from orchestrator.tracker.mlflow_sql import MlflowSql
from orchestrator.tracker.tracker import Tracker

EXPERIMENT = "recall-frontier"  # on the shared server only this test uses it


@pytest.fixture
def stores(tmp_path, sqlite_store, postgres_store, server) -> Iterator[dict[str, tuple[str, Tracker]]]:
    """URI and tracker by name; each store is empty."""
    root = str(tmp_path / "artifacts")
    client_store = f"sqlite:///{tmp_path / 'by-client.db'}"
    (tmp_path / "by-client.db").write_bytes((tmp_path / "mlflow.db").read_bytes())
    found = {
        "client": (client_store, MlflowClientTracker(client_store, root)),
        "bulk sqlite": (sqlite_store, MlflowSql(sqlite_store, root)),
        "bulk postgres": (postgres_store, MlflowSql(postgres_store, root)),
        "client over http": (server.uri, MlflowClientTracker(server.uri)),
    }
    yield found
    for _, tracker in found.values():
        tracker.close()


def write(tracker: Tracker, parent, trial, page) -> None:
    """A sweep's life: started, trials of all kinds, one retried, one delivered twice, finished."""
    tracker.write_parent(parent(status="RUNNING", end_ms=None, metrics={}))
    tracker.write_trials(
        [
            trial(0),
            trial(1, status="FAILED", metrics={}, tags={"slotsweep.reason": "out_of_memory"}),
            trial(2, status="KILLED", params={"text": "x" * 7000, "list": [1, 2], "none": None}),
            trial(3, metrics={"recall": 1.0, "nan": float("nan"), "inf": float("inf"), "tiny": 1e-300}),
            trial(4, status="RUNNING", end_ms=None, metrics={"recall": 0.5}),
            trial(5, series={"loss": [2.0, float("nan"), 0.5], "phase_slots": [float(i) for i in range(1500)]}),
            trial(6, series={"recall": [0.1, 0.2]}),  # a metric has that name too
            trial(7, series={"loss": [2.0, float("nan"), 0.5]}, steps={"loss": [1, 250, 500]}),
            trial(8, series={"system/cpu": [90.0, 50.0]}, times={"system/cpu": [trial(8).start_ms + 2, 1760000000009]}),
        ]
    )
    tracker.write_trials([trial(5, series={"loss": [2.0, float("nan"), 0.5, 0.25]})])
    tracker.write_trials([trial(1, start_ms=trial(1).start_ms + 500, end_ms=trial(1).end_ms + 500), trial(0)])
    tracker.write_parent(parent(about="Of recall.", views={"s1": "{}"}))
    tracker.write_parent(parent(artifacts={"report.html": page, "figures/frontier.png": page}, views={"s1": "{ }"}))


def seen(uri: str) -> list[dict[str, Any]]:
    """Everything that MLflow's API says about the runs, with MLflow's own ids replaced by ours."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    runs = client.search_runs(
        [experiment.experiment_id], order_by=["attributes.start_time", "tags.`slotsweep.run_id`"], max_results=100
    )
    ours = {run.info.run_id: run.data.tags["slotsweep.run_id"] for run in runs}
    described = []
    for run in runs:
        assert run.to_dictionary() == client.get_run(run.info.run_id).to_dictionary()
        tags = dict(run.data.tags)
        if "mlflow.parentRunId" in tags:
            tags["mlflow.parentRunId"] = ours[tags["mlflow.parentRunId"]]
        described.append(
            {
                "run": ours[run.info.run_id],
                "info": (run.info.run_name, run.info.status, run.info.start_time, run.info.end_time),
                "owner": (run.info.user_id, run.info.lifecycle_stage),
                "params": run.data.params,
                "tags": tags,
                "metrics": run.data.metrics,
                "latest": sorted((one.key, one.value, one.timestamp, one.step) for one in run.data._metric_objs),
                "history": {
                    key: [
                        (one.value, one.timestamp, one.step) for one in client.get_metric_history(run.info.run_id, key)
                    ]
                    for key in run.data.metrics
                },
                "artifacts": [
                    (file.path, file.is_dir, file.file_size) for file in client.list_artifacts(run.info.run_id)
                ],
                "artifact place": run.info.artifact_uri.endswith(f"/{run.info.run_id}/artifacts"),
            }
        )
    return described


def table(uri: str) -> pd.DataFrame:
    """`mlflow.search_runs` as a data frame, without what MLflow numbers by itself."""
    mlflow.set_tracking_uri(uri)
    frame = mlflow.search_runs(
        experiment_names=[EXPERIMENT], run_view_type=ViewType.ALL, order_by=["metrics.recall DESC", "params.seed ASC"]
    )
    own = ["run_id", "experiment_id", "artifact_uri", "tags.mlflow.parentRunId"]
    return frame.drop(columns=own).reindex(sorted(frame.columns.drop(own)), axis=1)


def test_every_field_is_the_same(stores, parent, trial, tmp_path) -> None:
    page = tmp_path / "page"
    page.write_text("<p>report</p>")
    for _, tracker in stores.values():
        write(tracker, parent, trial, page)
    expected, expected_table = seen(stores["client"][0]), table(stores["client"][0])
    assert len(expected) == 10
    assert {run["info"][1] for run in expected} == {"FINISHED", "KILLED", "RUNNING"}
    for name, (uri, _) in stores.items():
        assert seen(uri) == expected, name
        assert MlflowClient(uri).get_experiment_by_name(EXPERIMENT).tags == {
            "mlflow.note.content": "Of recall.",
            "mlflow.sharedViewState.s1": "{ }",
        }
        pd.testing.assert_frame_equal(table(uri), expected_table)


def test_either_way_goes_on_where_the_other_stopped(sqlite_store, parent, trial, tmp_path) -> None:
    bulk = MlflowSql(sqlite_store, str(tmp_path))
    client = MlflowClientTracker(sqlite_store, str(tmp_path))
    bulk.write_parent(parent())
    bulk.write_trials([trial(0), trial(1)])
    before = seen(sqlite_store)
    client.write_parent(parent())
    client.write_trials([trial(0), trial(1)])
    assert seen(sqlite_store) == before
    client.write_trials([replace(trial(1), status="FAILED"), trial(2)])
    assert [run["info"][1] for run in seen(sqlite_store)] == ["FINISHED", "FINISHED", "FAILED", "FINISHED"]
