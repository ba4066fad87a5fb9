"""Running a sweep in the foreground: workers, tracker and report around the scheduler."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from models.mechanism import MECHANISMS
from models.plugins import load_plugin
from orchestrator.code_snapshot import module_name, take_snapshot
from orchestrator.errors import RequestError
from orchestrator.executors.base import Executor
from orchestrator.executors.inline import InlineExecutor
from orchestrator.plan import Plan, code_fingerprint
from orchestrator.scheduler import Progress, Scheduler, StopRequest
from orchestrator.settings import Settings
from orchestrator.software import software_record
from orchestrator.store.records import CellRow, NewSweep, Submitted, SweepRow
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store
from workers.host import Preparation

if TYPE_CHECKING:
    from tasks.summary import FrontierSummary

ExecutorName = Literal["ray", "inline"]


@dataclass(frozen=True)
class RunOutcome:
    """How a foreground run ended. `report` and `summary` are None unless the sweep has finished."""

    sweep: SweepRow
    report: Path | None
    summary: FrontierSummary | None
    seconds: float
    undelivered: int


def submit_plan(store: Store, plan: Plan, *, use_cache: bool = True) -> Submitted:
    """Store the plan as a queued sweep."""
    from orchestrator.spec import canonical

    spec = plan.spec
    sweep = NewSweep(
        name=spec.name,
        kind=spec.kind,
        spec=canonical(spec),
        spec_text=spec.text,
        spec_path=spec.path,
        code=take_snapshot(spec.plugins),
        software=software_record(),
        use_cache=use_cache,
    )
    return store.submit(sweep, plan.trials())


def execute(
    settings: Settings,
    store: Store,
    sweep_id: str,
    *,
    executor: ExecutorName,
    on_progress: Callable[[Progress], None],
    stop: StopRequest,
    tracking: bool = True,
) -> RunOutcome:
    """Compute what the sweep misses, keep the tracker fed, draw the report. Raises ExecutorError if nothing can run."""
    from orchestrator.tracker_process import TrackerProcess

    sweep = store.sweep(sweep_id)
    tracker = TrackerProcess(settings, sweep.id) if tracking else None
    try:
        _compute(settings, store, sweep, executor, on_progress, stop)
        sweep = store.sweep(sweep.id)
        report = summary = None
        if sweep.state in (SweepState.DONE, SweepState.FAILED):
            from orchestrator.reporting import write_report

            report, summary = write_report(store, sweep, settings.report_folder(sweep.id))
            store.set_report(sweep.id, str(report))
    finally:
        if tracker is not None:
            tracker.finish()
    seconds = (sweep.finished or 0.0) - (sweep.started or 0.0)
    return RunOutcome(sweep, report, summary, max(0.0, seconds), store.undelivered(sweep.id) if tracking else 0)


def _compute(
    settings: Settings,
    store: Store,
    sweep: SweepRow,
    executor: ExecutorName,
    on_progress: Callable[[Progress], None],
    stop: StopRequest,
) -> None:
    if sweep.counts.open == 0:
        store.set_sweep_state(sweep.id, SweepState.RUNNING)
        failed = sweep.counts.failed or sweep.counts.cancelled
        store.set_sweep_state(sweep.id, SweepState.FAILED if failed else SweepState.DONE)
        return
    for plugin in sweep.spec["plugins"]:
        load_plugin(plugin)
    runner = _executor(executor, settings, store, sweep)
    try:
        Scheduler(store, runner, sweep, on_progress, stop).run()
    except BaseException:
        store.set_sweep_state(sweep.id, SweepState.PAUSED)
        raise
    finally:
        # Ray takes a second to go; the report does not wait for it.
        threading.Thread(target=runner.stop, name="stop-executor").start()


def _executor(name: ExecutorName, settings: Settings, store: Store, sweep: SweepRow) -> Executor:
    cells = store.cells(sweep.id).values()
    prepared = preparation(cells, [module_name(plugin) for plugin in sweep.spec["plugins"]])
    if name == "inline":
        _refuse_edited_code(sweep, cells)
        return InlineExecutor(prepared, settings.kernels)
    from orchestrator.executors.ray_cluster import RayExecutor

    return RayExecutor(prepared, store.code(sweep), settings)


def _refuse_edited_code(sweep: SweepRow, cells: Iterable[CellRow]) -> None:
    """In this process only the code as it is now can run; Ray's workers run what was pinned."""
    kinds = {(cell.workload["name"], cell.mechanism["name"], cell.fingerprint) for cell in cells}
    if any(code_fingerprint(workload, mechanism) != pinned for workload, mechanism, pinned in kinds):
        raise RequestError(
            f"the code was edited after sweep {sweep.id} was submitted: run it without `--executor inline` "
            "(workers use the code as it was), or submit its spec again"
        )


def preparation(cells: Iterable[CellRow], plugins: Sequence[str]) -> Preparation:
    """What workers must have ready for `cells`: each workload, and one config of each group of mechanisms."""
    workloads: dict[str, dict[str, Any]] = {}
    mechanisms: dict[str, dict[str, Any]] = {}
    dtype = "float32"
    for cell in cells:
        dtype = cell.dtype
        workloads.setdefault(json.dumps(cell.workload, sort_keys=True), cell.workload)
        free = MECHANISMS.implementation(cell.mechanism["name"]).batch_over
        kind = {name: value for name, value in cell.mechanism.items() if name not in free}
        mechanisms.setdefault(json.dumps(kind, sort_keys=True), cell.mechanism)
    return Preparation(tuple(workloads.values()), tuple(mechanisms.values()), dtype, tuple(plugins))
