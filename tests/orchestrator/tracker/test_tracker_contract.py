"""What every tracker must do on every kind of store, seen through MLflow's public client."""

from __future__ import annotations

import math
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run, ViewType

from orchestrator.tracker.mlflow_client import MlflowClientTracker
from orchestrator.tracker.mlflow_sql import MlflowSql
from orchestrator.tracker.records import ParentRun, TrialRun
from orchestrator.tracker.tracker import Tracker, TrackerRefusedError

KINDS = ["bulk_sqlite", "bulk_postgres", "client_sqlite", "client_http"]


@dataclass
class Place:
    """A tracker, an experiment of this test's own, and MLflow's client to look at what was written."""

    tracker: Tracker
    experiment: str
    viewer: MlflowClient

    def runs(self, condition: str = "", order_by: list[str] | None = None) -> list[Run]:
        found = self.viewer.get_experiment_by_name(self.experiment)
        return list(
            self.viewer.search_runs([found.experiment_id], condition, order_by=order_by, run_view_type=ViewType.ALL)
        )

    def run(self, name: str) -> Run:
        (one,) = [run for run in self.runs() if run.info.run_name == name]
        return self.viewer.get_run(one.info.run_id)

    def artifacts(self, run: Run, folder: str | None = None) -> list[str]:
        return [file.path for file in self.viewer.list_artifacts(run.info.run_id, folder)]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    experiment = f"sweep of {uuid.uuid4().hex[:8]}"
    root = str(tmp_path / "artifacts")
    way, store = request.param.split("_")
    uri = request.getfixturevalue("server").uri if store == "http" else request.getfixturevalue(f"{store}_store")
    if way == "bulk":
        tracker: Tracker = MlflowSql(uri, root)
    else:
        tracker = MlflowClientTracker(uri, None if store == "http" else root)
    tracker.prepare()
    yield Place(tracker, experiment, MlflowClient(uri))
    tracker.close()


@pytest.fixture
def a_parent(parent: Callable[..., ParentRun], place: Place) -> Callable[..., ParentRun]:
    own = {"sweep": place.experiment, "experiment": place.experiment}
    return lambda **changes: parent(**{**own, **changes})


@pytest.fixture
def a_trial(trial: Callable[..., TrialRun], place: Place) -> Callable[..., TrialRun]:
    own = {"sweep": place.experiment, "experiment": place.experiment}
    return lambda position=0, **changes: trial(position, **{**own, **changes})


def test_a_trial_is_a_finished_child_with_its_times_params_metrics_and_tags(place, a_parent, a_trial) -> None:
    place.tracker.write_parent(a_parent())
    place.tracker.write_trials([a_trial(3)])
    sweep, run = place.run(place.experiment), place.run("dp_cache 3")
    assert run.info.status == "FINISHED"
    assert (run.info.start_time, run.info.end_time) == (a_trial(3).start_ms, a_trial(3).end_ms)
    assert run.info.lifecycle_stage == "active"
    assert run.data.params == {
        "workload.items": "64",
        "mechanism.name": "dp_cache",
        "mechanism.tau": "0.4",
        "seed": "3",
    }
    assert run.data.metrics == a_trial(3).metrics
    tags = run.data.tags
    assert tags["mlflow.parentRunId"] == sweep.info.run_id
    assert place.viewer.get_parent_run(run.info.run_id).info.run_id == sweep.info.run_id
    assert tags["mlflow.runName"] == "dp_cache 3"
    assert tags["mlflow.source.name"] == "slotsweep"
    assert tags["slotsweep.trial_key"] == a_trial(3).trial_key
    assert tags["hw.cpu_model"] == "AMD EPYC"
    assert "hw.energy" not in tags
    assert tags["hw.energy_reason"].startswith("not measurable here")
    history = place.viewer.get_metric_history(run.info.run_id, "recall")
    assert [(metric.value, metric.timestamp, metric.step) for metric in history] == [(0.903, run.info.end_time, 0)]


def test_the_sweeps_run_carries_note_params_and_metrics(place, a_parent) -> None:
    place.tracker.write_parent(a_parent())
    run = place.run(place.experiment)
    assert run.data.tags["mlflow.note.content"] == "**Recall** at each size."
    assert run.data.params["episodes"] == "300"
    assert run.data.metrics == {"trials": 24.0, "failed": 0.0}
    assert "mlflow.parentRunId" not in run.data.tags


def test_the_experiment_gets_a_description_and_views_and_keeps_what_a_person_wrote(place, a_parent) -> None:
    def tags() -> dict[str, str]:
        return dict(place.viewer.get_experiment_by_name(place.experiment).tags)

    place.tracker.write_parent(a_parent(about="What it is.", views={"first": "{}"}))
    assert tags() == {"mlflow.note.content": "What it is.", "mlflow.sharedViewState.first": "{}"}
    identity = place.viewer.get_experiment_by_name(place.experiment).experiment_id
    place.viewer.set_experiment_tag(identity, "mlflow.note.content", "A person's words.")
    place.tracker.write_parent(
        a_parent(about="Other words.", views={"first": "{ }", "second": "{}", "long": "x" * 9000})
    )
    assert tags() == {
        "mlflow.note.content": "A person's words.",
        "mlflow.sharedViewState.first": "{ }",
        "mlflow.sharedViewState.second": "{}",
    }


def test_a_run_is_found_by_our_id(place, a_parent) -> None:
    run_id = a_parent().run_id
    assert place.tracker.find(place.experiment, run_id) is None
    assert place.viewer.get_experiment_by_name(place.experiment) is None
    place.tracker.write_parent(a_parent())
    run = place.run(place.experiment)
    found = place.tracker.find(place.experiment, run_id)
    assert (found.experiment, found.run) == (run.info.experiment_id, run.info.run_id)
    assert place.tracker.find(place.experiment, "e" * 32) is None


def test_writing_again_changes_nothing(place, a_parent, a_trial) -> None:
    def written() -> list[dict]:
        return [run.to_dictionary() for run in place.runs(order_by=["attributes.start_time", "attributes.run_id"])]

    trials = [a_trial(position) for position in range(5)]
    place.tracker.write_parent(a_parent())
    place.tracker.write_trials(trials)
    before = written()
    assert len(before) == 6
    place.tracker.close()
    place.tracker.write_parent(a_parent())
    place.tracker.write_trials(trials[2:])
    place.tracker.write_trials(trials)
    assert written() == before


def test_a_running_trial_is_ended_by_its_next_delivery(place, a_parent, a_trial) -> None:
    place.tracker.write_parent(a_parent(status="RUNNING", end_ms=None))
    place.tracker.write_trials([a_trial(status="RUNNING", end_ms=None, metrics={})])
    assert place.run("dp_cache 0").info.status == "RUNNING"
    place.tracker.write_trials([a_trial()])
    run = place.run("dp_cache 0")
    assert (run.info.status, run.info.end_time) == ("FINISHED", a_trial().end_ms)
    assert run.data.metrics == a_trial().metrics


def test_a_retried_trial_keeps_its_run_and_loses_the_tags_of_the_failure(place, a_parent, a_trial) -> None:
    failed = a_trial(status="FAILED", metrics={}, tags={"slotsweep.reason": "timeout", "hw.gpu": "none"})
    place.tracker.write_parent(a_parent())
    place.tracker.write_trials([failed])
    place.tracker.write_trials([a_trial(7)])
    retried = a_trial(start_ms=failed.start_ms + 5000, end_ms=failed.start_ms + 5009, tags={"hw.gpu": "A10"})
    place.tracker.write_trials([retried, a_trial(7)])
    run = place.run("dp_cache 0")
    assert (run.info.status, run.info.end_time) == ("FINISHED", retried.end_ms)
    assert run.info.start_time == failed.start_ms
    assert "slotsweep.reason" not in run.data.tags
    assert run.data.tags["hw.gpu"] == "A10"
    assert run.data.tags["slotsweep.trial_key"] == failed.trial_key
    assert len(place.runs()) == 3


def test_a_sweep_that_goes_on_is_running_again(place, a_parent) -> None:
    place.tracker.write_parent(a_parent(status="KILLED"))
    place.tracker.write_parent(a_parent(status="RUNNING", end_ms=None))
    assert place.run(place.experiment).info.status == "RUNNING"
    place.tracker.write_parent(a_parent(end_ms=a_parent().end_ms + 1))
    run = place.run(place.experiment)
    assert (run.info.status, run.info.end_time) == ("FINISHED", a_parent().end_ms + 1)


def test_of_several_deliveries_of_one_run_the_last_stands(place, a_parent, a_trial) -> None:
    place.tracker.write_parent(a_parent())
    place.tracker.write_trials([a_trial(status="RUNNING", end_ms=None), a_trial(1), a_trial(status="FAILED")])
    assert place.run("dp_cache 0").info.status == "FAILED"
    assert len(place.runs()) == 3


def test_metrics_that_are_missing_or_not_numbers_are_left_out(place, a_parent, a_trial) -> None:
    place.tracker.write_parent(a_parent())
    metrics = {"recall": math.nan, "energy_joules": None, "slots": 64, "ratio": math.inf, "low": -math.inf}
    place.tracker.write_trials([a_trial(metrics=metrics)])
    largest = sys.float_info.max
    assert place.run("dp_cache 0").data.metrics == {"slots": 64.0, "ratio": largest, "low": -largest}


def test_values_beyond_mlflows_limits_are_cut_where_one_sees_it(place, a_parent, a_trial) -> None:
    place.tracker.write_parent(a_parent(note="n" * 9000))
    place.tracker.write_trials(
        [a_trial(params={"k" * 300: "p" * 7000}, tags={"slotsweep.message": "t" * 9000}, metrics={"m" * 300: 1.0})]
    )
    run = place.run("dp_cache 0")
    ((key, value),) = run.data.params.items()
    assert len(key) == 250
    assert len(value) == 6000
    assert value.endswith(" … [7000 characters]")
    assert run.data.tags["slotsweep.message"].endswith(" … [9000 characters]")
    assert [len(name) for name in run.data.metrics] == [250]
    assert place.run(place.experiment).data.tags["mlflow.note.content"].endswith(" … [9000 characters]")


def test_keys_that_mlflow_does_not_allow_are_changed_but_stay_distinct(place, a_parent, a_trial) -> None:
    place.tracker.write_parent(a_parent())
    place.tracker.write_trials([a_trial(params={"a@b": 1, "a=b": 2, "../up": 3, "/root": 4, "τ": 5, "a//b": 6})])
    params = place.run("dp_cache 0").data.params
    assert sorted(params.values()) == ["1", "2", "3", "4", "5", "6"]
    assert params["τ"] == "5"


def test_runs_are_found_sorted_and_filtered(place, a_parent, a_trial) -> None:
    place.tracker.write_parent(a_parent())
    place.tracker.write_trials([a_trial(position) for position in (2, 0, 3, 1)])
    best = place.runs("params.seed != '3' and tags.`hw.device` = 'cpu'", order_by=["metrics.recall DESC"])
    assert [run.data.params.get("seed") for run in best] == ["2", "1", "0"]
    assert [run.info.run_name for run in place.runs("metrics.recall > 0.9015 and metrics.recall < 0.9025")] == [
        "dp_cache 2"
    ]


def test_a_deleted_experiment_is_restored(place, a_parent, a_trial) -> None:
    place.tracker.write_parent(a_parent())
    found = place.viewer.get_experiment_by_name(place.experiment)
    place.viewer.delete_experiment(found.experiment_id)
    place.tracker.close()
    place.tracker.write_trials([a_trial()])
    assert place.viewer.get_experiment_by_name(place.experiment).lifecycle_stage == "active"
    assert {run.info.lifecycle_stage for run in place.runs()} == {"active"}
    assert len(place.runs()) == 2


def test_a_run_that_a_person_deleted_stays_deleted(place, a_parent, a_trial) -> None:
    place.tracker.write_parent(a_parent())
    place.tracker.write_trials([a_trial()])
    place.viewer.delete_run(place.run("dp_cache 0").info.run_id)
    place.tracker.write_trials([a_trial()])
    assert [run.info.lifecycle_stage for run in place.runs() if run.info.run_name == "dp_cache 0"] == ["deleted"]


def test_a_name_and_a_tag_that_a_person_gave_stay(place, a_parent, a_trial) -> None:
    place.tracker.write_parent(a_parent())
    place.tracker.write_trials([a_trial()])
    identity = place.run("dp_cache 0").info.run_id
    place.viewer.update_run(identity, name="the best one")
    place.viewer.set_tag(identity, "mine", "keep")
    place.tracker.write_trials([a_trial(status="FAILED")])
    run = place.run("the best one")
    assert run.data.tags["mlflow.runName"] == "the best one"
    assert run.data.tags["mine"] == "keep"
    assert run.info.status == "FAILED"


def test_orphans_of_one_sweep_are_closed(place, a_parent, a_trial) -> None:
    other = {"run_id": "e" * 32, "sweep": "other", "name": "other"}
    place.tracker.write_parent(a_parent(status="RUNNING", end_ms=None))
    place.tracker.write_parent(a_parent(status="RUNNING", end_ms=None, **other))
    place.tracker.write_trials([a_trial(0, status="RUNNING", end_ms=None), a_trial(1)])
    place.tracker.write_trials([a_trial(2, status="RUNNING", end_ms=None, parent_run_id="e" * 32, sweep="other")])
    end = a_parent().end_ms
    assert place.tracker.close_orphans(place.experiment, a_parent().run_id, "KILLED", end) == 2
    assert place.tracker.close_orphans(place.experiment, a_parent().run_id, "KILLED", end + 9) == 0
    states = {run.info.run_name: (run.info.status, run.info.end_time) for run in place.runs()}
    assert states[place.experiment] == states["dp_cache 0"] == ("KILLED", end)
    assert states["dp_cache 1"] == ("FINISHED", a_trial(1).end_ms)
    assert states["other"][0] == states["dp_cache 2"][0] == "RUNNING"


def test_orphans_of_a_sweep_that_was_never_written_are_none(place, a_parent) -> None:
    place.tracker.write_parent(a_parent())
    assert place.tracker.close_orphans(place.experiment, "d" * 32, "KILLED", 1) == 0


def test_artifacts_are_listed_read_and_replaced(place, a_parent, tmp_path) -> None:
    page, table = tmp_path / "draft page.html", tmp_path / "table.csv"
    page.write_text("<p>first</p>")
    table.write_text("slots,recall\n")
    place.tracker.write_parent(a_parent(artifacts={"report.html": page, "report/tables/table.csv": table}))
    page.write_text("<p>second</p>")
    place.tracker.write_parent(a_parent(artifacts={"report.html": page, "report/tables/table.csv": table}))
    run = place.run(place.experiment)
    assert place.artifacts(run) == ["report", "report.html"]
    assert place.artifacts(run, "report/tables") == ["report/tables/table.csv"]
    fetched = place.viewer.download_artifacts(run.info.run_id, "report.html", str(tmp_path))
    assert Path(fetched).read_text() == "<p>second</p>"


def test_an_artifact_that_is_gone_or_leads_outside_is_refused(place, a_parent, tmp_path) -> None:
    with pytest.raises(TrackerRefusedError, match="there is no file"):
        place.tracker.write_parent(a_parent(artifacts={"report.html": tmp_path / "gone.html"}))
    (tmp_path / "page.html").write_text("page")
    for outside in ("../page.html", "/tmp/page.html"):
        with pytest.raises(TrackerRefusedError, match="leads out"):
            place.tracker.write_parent(a_parent(artifacts={outside: tmp_path / "page.html"}))


def test_sweeps_of_several_experiments_go_into_one_write(place, a_parent, a_trial, trial, parent) -> None:
    other = f"{place.experiment} – “noch’n” 'sweep' \"é\" \\"
    place.tracker.write_parent(a_parent())
    place.tracker.write_parent(parent(other, other))
    place.tracker.write_trials([a_trial(0), trial(0, other, other), a_trial(1)])
    assert len(place.runs()) == 3
    assert len(replace(place, experiment=other).runs()) == 2


def test_a_trial_without_metrics_or_params_is_a_run_too(place, a_parent, a_trial) -> None:
    place.tracker.write_parent(a_parent())
    place.tracker.write_trials([a_trial(status="KILLED", params={}, metrics={})])
    run = place.run("dp_cache 0")
    assert (run.info.status, run.data.params, run.data.metrics) == ("KILLED", {}, {})
    place.tracker.write_trials([])
    assert len(place.runs()) == 2
