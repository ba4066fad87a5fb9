"""What must hold after any number of faults: every trial once, with the right values, everywhere it is recorded."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import func, select

from orchestrator.store import schema
from orchestrator.store.engine import reading
from orchestrator.store.store import Store
from tasks.evaluate import TIMING_METRICS
from tests.faults.place import Place, Row

Values = dict[str, dict[str, float]]
"""Trial key -> metric -> value."""


def values(rows: list[Row]) -> Values:
    """What a result table says of each trial, without how long things took."""
    timed = {f"metrics.{name}" for name in TIMING_METRICS}
    return {
        row["key"]: {name: row[name] for name in row if name.startswith("metrics.") and name not in timed}
        for row in rows
    }


def check_table(rows: list[Row], undisturbed: list[Row]) -> None:
    """Nothing is lost, nothing is there twice, and every value is that of the undisturbed run."""
    assert Counter(row["key"] for row in rows) == Counter(row["key"] for row in undisturbed)
    assert {row["state"] for row in rows} == {"done"}
    assert values(rows) == values(undisturbed)


def check_store(store: Store, sweep: str) -> None:
    """Each trial has one result, of the last of its attempts; every other attempt at it was lost, with a reason."""
    row = store.sweep(sweep)
    assert (row.state, row.counts.done) == ("done", row.trials)
    trials, results, attempts = schema.trials.c, schema.results.c, schema.attempts.c
    mine = select(schema.sweep_trials.c.trial).where(schema.sweep_trials.c.sweep == sweep)
    with reading(store.engine) as connection:
        counted = dict(connection.execute(select(trials.id, trials.attempts).where(trials.id.in_(mine))).all())
        accepted = dict(connection.execute(select(results.trial, results.attempt).where(results.trial.in_(mine))).all())
        still_open = connection.execute(select(func.count()).where(attempts.state == "open")).scalar_one()
    assert still_open == 0
    assert accepted.keys() == counted.keys()
    for trial, tries in counted.items():
        *lost, last = store.attempts_of(trial)
        assert (last.state, last.id) == ("done", accepted[trial]), "computed again after it was committed"
        assert len(lost) == tries - 1
        assert {attempt.state for attempt in lost} <= {"lost"}
        assert {attempt.reason for attempt in lost} <= {"worker_lost", "preempted"}
    assert store.undelivered(sweep) == 0


def check_tracking(place: Place, sweep: str, rows: list[Row]) -> None:
    """MLflow's public client shows one run a trial and one of the sweep, all finished, with the table's numbers."""
    from mlflow import MlflowClient

    client = MlflowClient(place.settings.tracking_uri)
    [experiment] = [e for e in client.search_experiments() if e.name == "storm"]
    runs = client.search_runs([experiment.experiment_id], f"tags.`slotsweep.sweep` = '{sweep}'", max_results=50_000)
    [parent] = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = [run for run in runs if run is not parent]
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert parent.data.metrics["trials_done"] == len(rows)
    assert Counter(run.data.tags["slotsweep.trial_key"] for run in children) == Counter(row["key"] for row in rows)
    by_key = {row["key"]: row for row in rows}
    for run in children:
        row = by_key[run.data.tags["slotsweep.trial_key"]]
        expected = {name.removeprefix("metrics."): row[name] for name in row if name.startswith("metrics.")}
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert {name: run.data.metrics[name] for name in expected} == expected
