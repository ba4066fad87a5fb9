"""From the store to runs: what MLflow is told of a sweep and of each of its trials."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from dashboards.mlflow_notes import experiment_note, run_note
from dashboards.mlflow_views import sweep_views
from dashboards.text import settings
from orchestrator.results import PROPOSED
from orchestrator.store.records import SweepRow
from orchestrator.store.states import ENDED, SweepState, TrialState
from orchestrator.sweep_notes import note_of, varied_fields
from orchestrator.tracker.records import ParentRun, RunStatus, TrialRun, parent_run_id_for, run_id_for
from tasks.cells import marked, row_looks_ahead
from tasks.series import steps_name
from workers.system_metrics import SYSTEM, SYSTEM_SECONDS

TRIAL_STATUS: dict[str, RunStatus] = {
    TrialState.DONE: "FINISHED",
    TrialState.FAILED: "FAILED",
    TrialState.CANCELLED: "KILLED",
}
SWEEP_STATUS: dict[str, RunStatus] = {
    SweepState.DONE: "FINISHED",
    SweepState.FAILED: "FAILED",
    SweepState.CANCELLED: "KILLED",
    SweepState.RUNNING: "RUNNING",
    SweepState.QUEUED: "SCHEDULED",
    SweepState.PAUSED: "SCHEDULED",
}
COSTS = ("wall_seconds", "cpu_seconds", "peak_memory_bytes", "device_memory_bytes", "energy_joules")
NOTES = ("batch", "energy_reason", "device_memory_reason", "shared", "agreement")
REPORT_FILES = ("*.html", "*.png", "*.svg", "*.pdf", "*.csv", "*.md", "*.tex")


def parent_run(sweep: SweepRow) -> ParentRun:
    """The sweep's run, as the sweep stands now, with its spec, report and figures."""
    counts = sweep.counts
    ended = sweep.state in ENDED
    return ParentRun(
        run_id=parent_run_id_for(sweep.id),
        sweep=sweep.id,
        experiment=sweep.name,
        name=f"{sweep.name} {sweep.id}",
        status=SWEEP_STATUS[sweep.state],
        start_ms=_ms(sweep.started or sweep.created),
        end_ms=_ms(sweep.finished) if ended and sweep.finished is not None else None,
        params={"kind": sweep.kind, "trials": sweep.trials},
        tags={
            "slotsweep.sweep": sweep.id,
            "slotsweep.kind": sweep.kind,
            "slotsweep.state": sweep.state,
            "slotsweep.reused": sweep.reused,
            "slotsweep.replaced": "false",
            **_submitter(sweep),
            **{f"slotsweep.software.{name}": value for name, value in sweep.software.items()},
        },
        metrics={"trials_done": counts.done, "trials_failed": counts.failed, "trials_reused": sweep.reused},
        note=run_note(note_of(sweep)),
        artifacts=_artifacts(sweep),
        about=experiment_note(sweep.name, sweep.spec["description"]),
        views=sweep_views(sweep.id, _ms(sweep.created), varied_fields(sweep)),
    )


def _artifacts(sweep: SweepRow) -> dict[str, Path]:
    if sweep.report is None or sweep.state == SweepState.RUNNING:  # then it is about to be drawn anew
        return {}
    folder = Path(sweep.report).parent
    files = [path for pattern in REPORT_FILES for path in folder.glob(pattern)]
    spec = folder / "spec.yaml"
    return {f"report/{path.name}": path for path in files} | ({"spec.yaml": spec} if spec.exists() else {})


def trial_run(sweep: SweepRow, row: dict[str, Any], best: Collection[int] = (), *, replaced: bool = False) -> TrialRun:
    """One trial's run from its result row.

    best      positions of the sweep's best trials
    replaced  the sweep has another generation of the trial since, as a retry asked for
    """
    sections: dict[str, dict[str, Any]] = {"workload": {}, "mechanism": {}, "metrics": {}, "series": {}, "hw": {}}
    for column, value in row.items():
        prefix, _, name = column.partition(".")
        if name and prefix in sections:
            sections[prefix][name if prefix in ("metrics", "series") else column] = value
    series = {name: values for name, values in sections["series"].items() if values}
    paced = {name: series.get(steps_name(name), ()) for name in series}
    steps = {
        name: [round(step) for step in at]
        for name, at in paced.items()
        if name != steps_name(name) and len(at) == len(series[name])
    }
    tell = {*map(steps_name, steps), SYSTEM_SECONDS}
    started, finished = _times(sweep, row)
    status = TRIAL_STATUS.get(row["state"], "RUNNING")
    return TrialRun(
        run_id=run_id_for(sweep.id, row["key"], row["generation"], row["trial"]),
        parent_run_id=parent_run_id_for(sweep.id),
        sweep=sweep.id,
        trial_key=row["key"],
        experiment=sweep.name,
        name=_trial_name(sweep, row),
        status=status,
        start_ms=_ms(started),
        end_ms=None if status == "RUNNING" else _ms(finished),
        params={
            **sections["workload"],
            **sections["mechanism"],
            **{name: row[name] for name in ("seed", "episodes", "dtype", "device")},
        },
        metrics={**sections["metrics"], **{name: row[name] for name in COSTS}},
        series={name: values for name, values in series.items() if name not in tell},
        steps=steps,
        times={
            name: [_ms(started + seconds) for seconds in series[SYSTEM_SECONDS]]
            for name in series
            if name.startswith(SYSTEM)
        },
        tags={
            "slotsweep.sweep": sweep.id,
            "slotsweep.trial": row["trial"],
            "slotsweep.trial_key": row["key"],
            "slotsweep.generation": row["generation"],
            "slotsweep.replaced": str(replaced).lower(),
            "slotsweep.reused": str(row["reused"]).lower(),
            "slotsweep.state": row["state"],
            "slotsweep.worker": row["worker"],
            **_submitter(sweep),
            **({"slotsweep.reason": row["reason"], "slotsweep.message": row["message"]} if row["reason"] else {}),
            **({"slotsweep.best": "true"} if row["trial"] in best else {}),
            **({"slotsweep.leaks_future": "true"} if row_looks_ahead(row) else {}),
            **{f"slotsweep.{name}": row[name] for name in NOTES if row[name] is not None},
            **{f"slotsweep.{name}": str(row[name]).lower() for name in PROPOSED if row.get(name) is not None},
            **sections["hw"],
        },
    )


def _times(sweep: SweepRow, row: dict[str, Any]) -> tuple[float, float]:
    """When a trial began and ended, in seconds since the epoch; of one that was never begun both are its end."""
    if row["started"] is not None:
        return row["started"], row["finished"] or sweep.finished or row["started"]
    never = sweep.finished or sweep.started or sweep.created
    return never, never


def _submitter(sweep: SweepRow) -> dict[str, Any]:
    """Who submitted the sweep, where that was not whoever runs it: as MLflow names a run's creator too."""
    return {} if sweep.user is None else {"slotsweep.user": sweep.user, "mlflow.user": sweep.user}


def _trial_name(sweep: SweepRow, row: dict[str, Any]) -> str:
    """`dp_cache tau 0.3, noise 0.2, seed 7`: what tells the trial from its neighbours, and whether it looks ahead."""
    name = row["mechanism.name"]
    varied = {field.partition(".")[2]: row[field] for field in varied_fields(sweep, name) if row.get(field) is not None}
    return marked(f"{name} {settings({**varied, 'seed': row['seed']})}", row_looks_ahead(row))


def _ms(seconds: float) -> int:
    return round(1000 * seconds)
