"""From the store's outbox to runs: what MLflow is told of a sweep and of each of its trials."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models.leaks import leaks_future
from orchestrator.results import PROPOSED, result_rows
from orchestrator.store.records import Notice, SweepRow
from orchestrator.store.states import ENDED, SweepState, TrialState
from orchestrator.store.store import Store
from orchestrator.tracker.drain import Delivery
from orchestrator.tracker.records import ParentRun, RunStatus, TrialRun, parent_run_id_for, run_id_for
from tasks.series import steps_name

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


class StoreOutbox:
    """The outbox of one sweep, as the drain reads it."""

    def __init__(self, store: Store, sweep: str, holder: str, lease_seconds: float) -> None:
        self._store = store
        self._sweep = sweep
        self._holder = holder
        self._lease_seconds = lease_seconds

    def next(self, limit: int) -> Sequence[Delivery]:
        """The oldest undelivered notices as runs. Of several notices of the sweep itself the last one speaks."""
        notices = self._store.notices(self._sweep, limit)
        if not notices or not self._store.lease_tracking(self._sweep, self._holder, self._lease_seconds):
            return []
        sweep = self._store.sweep(self._sweep)
        runs: dict[int, ParentRun | TrialRun] = {}
        by_position = {notice.position: notice.id for notice in notices if notice.trial is not None}
        trials = [notice.trial for notice in notices if notice.trial is not None]
        for row in result_rows(self._store, sweep, trials):
            runs[by_position[row["trial"]]] = trial_run(sweep, row)
        news = [notice for notice in notices if notice.trial is None]
        if news:
            runs[news[-1].id] = parent_run(sweep)
        # Earlier notices of the sweep are told by the last; a trial that a retry replaced is no longer the sweep's.
        self._store.delivered([notice.id for notice in notices if notice.id not in runs])
        return [Delivery(notice.id, runs[notice.id]) for notice in _parents_first(notices) if notice.id in runs]

    def done(self, ids: Sequence[int]) -> None:
        """Note that these notices are delivered."""
        self._store.delivered(ids)

    def refused(self, id: int, reason: str) -> None:
        """Note that this notice was refused: this process does not offer it again."""
        self._store.refuse(id, reason)


def _parents_first(notices: Sequence[Notice]) -> list[Notice]:
    return sorted(notices, key=lambda notice: (notice.trial is not None, notice.id))


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
            **{f"slotsweep.software.{name}": value for name, value in sweep.software.items()},
        },
        metrics={"trials_done": counts.done, "trials_failed": counts.failed, "trials_reused": sweep.reused},
        note=f"`{sweep.kind}` sweep of {sweep.trials} trials\n\n```yaml\n{sweep.spec_text}\n```",
        artifacts=_artifacts(sweep),
    )


def _artifacts(sweep: SweepRow) -> dict[str, Path]:
    if sweep.report is None:
        return {}
    folder = Path(sweep.report).parent
    files = [path for pattern in REPORT_FILES for path in folder.glob(pattern)]
    spec = folder / "spec.yaml"
    return {f"report/{path.name}": path for path in files} | ({"spec.yaml": spec} if spec.exists() else {})


def trial_run(sweep: SweepRow, row: dict[str, Any]) -> TrialRun:
    """One trial's run from its result row."""
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
    tell = set(map(steps_name, steps))
    started = row["started"] or sweep.started or sweep.created
    finished = row["finished"] or sweep.finished or started
    status = TRIAL_STATUS.get(row["state"], "RUNNING")
    return TrialRun(
        run_id=run_id_for(sweep.id, row["key"], row["generation"], row["trial"]),
        parent_run_id=parent_run_id_for(sweep.id),
        sweep=sweep.id,
        trial_key=row["key"],
        experiment=sweep.name,
        name=f"{row['mechanism.name']} {row['trial']}",
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
        tags={
            "slotsweep.sweep": sweep.id,
            "slotsweep.trial": row["trial"],
            "slotsweep.trial_key": row["key"],
            "slotsweep.generation": row["generation"],
            "slotsweep.reused": str(row["reused"]).lower(),
            "slotsweep.state": row["state"],
            "slotsweep.worker": row["worker"],
            **({"slotsweep.reason": row["reason"]} if row["reason"] else {}),
            **({"slotsweep.leaks_future": "true"} if _leaks(row) else {}),
            **{f"slotsweep.{name}": row[name] for name in NOTES if row[name] is not None},
            **{f"slotsweep.{name}": str(row[name]).lower() for name in PROPOSED if row.get(name) is not None},
            **sections["hw"],
        },
    )


def _leaks(row: dict[str, Any]) -> bool:
    fields = {name.removeprefix("mechanism."): value for name, value in row.items() if name.startswith("mechanism.")}
    return leaks_future({name: value for name, value in fields.items() if value is not None})


def _ms(seconds: float) -> int:
    return round(1000 * seconds)
