"""What MLflow holds after a sweep: a parent, a child a trial, the same numbers as the store; late, and once."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import tracker_process
from orchestrator.settings import Settings
from orchestrator.store.store import Store
from orchestrator.tracker_process import TrackerProcess
from tests.orchestrator.specs import write_small


@pytest.fixture
def client(settings: Settings):
    import mlflow

    return mlflow.MlflowClient(tracking_uri=settings.tracking_uri)


def runs_of(client, name: str):
    [experiment] = [e for e in client.search_experiments() if e.name == name]
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    return parents, children


def test_every_trial_is_a_run_under_its_sweep(slotsweep, client, store: Store, tmp_path: Path) -> None:
    ran = slotsweep("run", str(write_small(tmp_path)), "--executor", "inline", "--json")
    assert ran.code == 0, ran.err
    assert store.undelivered(ran.json["sweep"]) == 0
    [parent], children = runs_of(client, "small")
    assert len(children) == 24
    assert {run.info.status for run in [parent, *children]} == {"FINISHED"}
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert parent.data.metrics["trials_done"] == 24
    files = {artifact.path for artifact in client.list_artifacts(parent.info.run_id, "report")}
    assert {"report/report.html", "report/frontier-slots.png", "report/frontier.csv"} <= files
    assert "spec.yaml" in {artifact.path for artifact in client.list_artifacts(parent.info.run_id)}
    by_key = {row["key"]: row for row in slotsweep("results", "last", "--json").json}
    for run in children:
        row = by_key[run.data.tags["slotsweep.trial_key"]]
        assert run.data.metrics["recall"] == row["metrics.recall"]
        assert run.data.params["mechanism.name"] == row["mechanism.name"]
        assert run.data.params["seed"] == str(row["seed"])
        assert run.data.tags["hw.cpu_model"] == row["hw.cpu_model"]
        assert run.info.start_time == round(1000 * row["started"])
        assert run.data.tags["slotsweep.batch"] == str(row["batch"])
        assert "peak memory: of all trials computed in one call with it" in run.data.tags["slotsweep.shared"]


TRAINED = """\
name: trained
kind: training
workload: {name: token_recall, pairs: 2, length: 16}
mechanisms: [{name: transformer, width: 16, layers: 1, heads: 2, batch: 2, steps: 250, evaluations: 2}]
seeds: 1
episodes: 8
"""


def test_learning_curves_stand_at_the_steps_of_the_training(slotsweep, client, tmp_path: Path) -> None:
    spec = tmp_path / "trained.yaml"
    spec.write_text(TRAINED, encoding="utf-8")
    assert slotsweep("run", str(spec), "--executor", "inline").code == 0
    _, [run] = runs_of(client, "trained")
    [row] = slotsweep("results", "last", "--json").json
    curve = client.get_metric_history(run.info.run_id, "series/training_loss")
    assert [(point.step, point.value) for point in sorted(curve, key=lambda point: point.step)] == list(
        zip(map(round, row["series.training_step"]), row["series.training_loss"], strict=True)
    )
    scored = client.get_metric_history(run.info.run_id, "evaluated_recall")
    assert sorted(point.step for point in scored) == [125, 250]
    assert not [name for name in run.data.metrics if name.endswith("_step")]


def test_a_long_trial_tells_what_the_machine_was_doing(
    slotsweep_here, client, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As MLflow's system metrics, at their times; the results, which are the same whenever it is run, do not."""
    from workers import batch, system_metrics

    monkeypatch.setattr(batch, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(system_metrics, "INTERVAL_SECONDS", 0.05)
    spec = tmp_path / "trained.yaml"
    spec.write_text(TRAINED.replace("steps: 250", "steps: 800"), encoding="utf-8")
    assert slotsweep_here("run", str(spec), "--executor", "inline").code == 0
    _, [run] = runs_of(client, "trained")
    points = client.get_metric_history(run.info.run_id, "system/process_cpu_percentage")
    times = [point.timestamp for point in sorted(points, key=lambda point: point.step)]
    assert len(times) > 2
    assert times == sorted(times)
    assert run.info.start_time < times[0] < times[-1] <= run.info.end_time
    assert "system/seconds" not in run.data.metrics
    [row] = json.loads(slotsweep_here("results", "last", "--json").out)
    assert not [name for name in row if "system" in name]


def test_reused_trials_are_runs_of_their_second_sweep_too(slotsweep, client, tmp_path: Path) -> None:
    for _ in range(2):
        assert slotsweep("run", str(write_small(tmp_path)), "--executor", "inline").code == 0
    parents, children = runs_of(client, "small")
    assert (len(parents), len(children)) == (2, 48)
    assert sum(run.data.tags["slotsweep.reused"] == "true" for run in children) == 24


def test_an_unreachable_server_costs_no_result_and_runs_follow_later(
    slotsweep, client, settings: Settings, store: Store, tmp_path: Path
) -> None:
    """The tracking server is down for the whole sweep; a later tracker delivers everything, once."""
    spec = str(write_small(tmp_path))
    ran = slotsweep(
        "run", spec, "--executor", "inline", "--json",
        SLOTSWEEP_TRACKING_URI="http://127.0.0.1:1", SLOTSWEEP_TRACKING_GRACE="1",
    )  # fmt: skip
    assert (ran.code, ran.json["done"]) == (0, 24), ran.err
    assert "MLflow runs are still to be written" in ran.err
    waiting = store.undelivered(ran.json["sweep"])
    assert waiting >= 24
    for _ in range(2):
        TrackerProcess(settings).finish()
    assert store.undelivered(ran.json["sweep"]) == 0
    [parent], children = runs_of(client, "small")
    assert len(children) == 24
    assert {run.info.status for run in [parent, *children]} == {"FINISHED"}


def test_a_server_that_never_answers_is_not_waited_for_for_ever(
    slotsweep_here, settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sweep = slotsweep_here("submit", str(write_small(tmp_path))).out.strip()
    monkeypatch.setenv("SLOTSWEEP_TRACKING_GRACE", "1")
    for name in ("QUIET_SECONDS", "LAST_SECONDS"):
        monkeypatch.setattr(tracker_process, name, 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(120)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        tracker = TrackerProcess(replace(settings, tracking_uri=address))
        connection, _ = silent.accept()  # it has asked, and waits half a minute for an answer
        began = time.monotonic()
        tracker.finish()
        assert time.monotonic() - began < 20
        connection.close()
    assert store.undelivered(sweep)


def test_a_tracker_whose_driver_dies_delivers_what_is_there_and_ends(
    slotsweep, settings: Settings, tmp_path: Path
) -> None:
    sweep = slotsweep("submit", str(write_small(tmp_path))).out.strip()
    code = (
        "import os, sys, time; from orchestrator.settings import Settings; "
        "from orchestrator.tracker_process import TrackerProcess; "
        "tracker = TrackerProcess(Settings.read()); print(tracker.pid, flush=True); os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    import psutil

    assert done.returncode == 9
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(240)
    store = Store.open(settings.database_url)
    assert store.undelivered(sweep) == 0
