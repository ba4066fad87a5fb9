"""Running sweeps in the foreground: workers, tracker and reports around the scheduler."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from models.mechanism import MECHANISMS
from orchestrator.code_snapshot import module_name, take_snapshot
from orchestrator.errors import PreparationError, RequestError
from orchestrator.executors.base import Executor
from orchestrator.executors.inline import InlineExecutor
from orchestrator.growth import grow_from_store, growth_of, sample_cells
from orchestrator.job import Job, Progress
from orchestrator.logs import SweepLog
from orchestrator.patience import patiently
from orchestrator.pinned import load_pinned_plugins
from orchestrator.plan import Plan, code_fingerprint
from orchestrator.scheduler import Scheduler, StopRequest
from orchestrator.settings import Settings
from orchestrator.software import software_record
from orchestrator.spec import canonical
from orchestrator.spec.spec import Policy
from orchestrator.store.records import CellRow, NewSweep, Submitted, SweepRow
from orchestrator.store.states import ENDED, SweepState
from orchestrator.store.store import Store
from orchestrator.tracker_process import TrackerProcess
from orchestrator.tuner.warm_start import pin_warm_start
from tasks.kind import KINDS
from workers.host import Preparation

if TYPE_CHECKING:
    from tasks.summary import Summary

ExecutorName = Literal["ray", "inline"]
UNFINISHED = (SweepState.QUEUED, SweepState.RUNNING, SweepState.PAUSED)


@dataclass(frozen=True)
class Drawn:
    """A report: its file, and the summary it shows."""

    path: Path
    summary: Summary


@dataclass(frozen=True)
class RunOutcome:
    """How a foreground run left a sweep.

    drawn        its report; None if it could not be drawn up yet
    seconds      this command spent, until the sweep's report was drawn and its runs were delivered
    undelivered  MLflow runs still to be written; refusal: why the tracking store would not take them, if it said so
    unmirrored   why the studies of a sweep that tunes are not in Optuna's own store; None: they are, or there are none
    broken       why it could not be run at all, so that it waits; None: it was run
    """

    sweep: SweepRow
    drawn: Drawn | None
    seconds: float
    undelivered: int
    refusal: str | None
    unmirrored: str | None
    broken: str | None = None


def submit_plan(store: Store, plan: Plan, *, use_cache: bool = True) -> Submitted:
    """Store the plan as a queued sweep. Raises RequestError where its studies cannot begin with what it names."""
    spec = pin_warm_start(store, plan.spec)
    sweep = NewSweep(
        name=spec.name,
        kind=spec.kind,
        spec=canonical(spec),
        spec_text=spec.text,
        spec_path=spec.path,
        code=take_snapshot(spec.plugins),
        software=software_record(),
        use_cache=use_cache,
        priority=spec.policy.priority,
        infrastructure_retries=spec.policy.infrastructure_retries,
        code_retries=spec.policy.code_retries,
        fingerprints=plan.fingerprints if plan.kind.proposes else None,
    )
    return store.submit(sweep, plan.trials(), plan.code())


class SweepQueue:
    """The sweeps that one scheduler runs: of those named, or of all that are unfinished, the ones like `first`.

    Alike are sweeps that run the same code and that both measure times or both do not.
    """

    def __init__(self, store: Store, settings: Settings, first: SweepRow, named: Sequence[str] | None) -> None:
        self.drawings: dict[str, Future[Drawn]] = {}
        self._store = store
        self._settings = settings
        self._first = first
        self._named = named
        self._adopted: set[str] = set()
        self._begun = False
        self._logs: dict[str, SweepLog] = {}
        self._artist = ThreadPoolExecutor(1, "draw-report")

    def adopt(self) -> list[Job]:
        """Sweeps to take on now. Paused ones are resumed at the start only: who pauses one later means it."""
        jobs = patiently(self._waiting)
        self._begun = True
        self._adopted |= {job.sweep.id for job in jobs}
        return jobs

    def _waiting(self) -> list[Job]:
        saved = self._settings.trainings
        return [Job(self._store, row, policy_of(row), growth_of(self._store, row), saved) for row in self.rows()]

    def _is_like_first(self, row: SweepRow) -> bool:
        first = self._first
        return row.code == first.code and measures_time(row.kind) == measures_time(first.kind)

    def rows(self) -> list[SweepRow]:
        """The sweeps that `adopt` would take on now."""
        if self._named is not None:
            wanted = self._named
        else:
            wanted = self._store.waiting_sweeps([SweepState.QUEUED] if self._begun else UNFINISHED)
        rows = [self._store.sweep(identity) for identity in wanted if identity not in self._adopted]
        return [row for row in rows if self._is_like_first(row)]

    def log(self, sweep: str) -> SweepLog:
        """The sweep's log."""
        if sweep not in self._logs:
            self._logs[sweep] = SweepLog(self._settings, sweep)
        return self._logs[sweep]

    def ended(self, job: Job) -> None:
        """Draw the sweep's report, beside whatever else goes on."""
        if self._named is None:
            self._adopted.discard(job.sweep.id)  # it may be queued again: retried, or extended
        self.drawings[job.sweep.id] = self._artist.submit(patiently, self._draw, job.sweep.id)

    def close(self) -> None:
        """Wait for the last drawing."""
        self._artist.shutdown()

    def _draw(self, sweep: str) -> Drawn:
        from orchestrator.reporting import write_own_report

        row = self._store.sweep(sweep)
        path, summary = write_own_report(self._store, row, self._settings)
        self._store.set_report(sweep, str(path))
        return Drawn(path, summary)


def execute(
    settings: Settings,
    store: Store,
    named: Sequence[str] | None,
    *,
    executor: ExecutorName,
    on_progress: Callable[[Progress], None],
    stop: StopRequest,
    on_wait: Callable[[], None] = lambda: None,
) -> list[RunOutcome]:
    """Compute what the sweeps `named` (None: all unfinished ones) miss, keep the tracker fed, draw reports.

    Sweeps run together where they run the same code, those that measure times apart from the others. One that cannot
    be prepared waits, and keeps no other from running. Raises ExecutorError, or RequestError, if nothing can run; the
    sweeps are then paused. `on_wait` is called if the tracking store lets everything else wait.
    """
    began = time.monotonic()
    tracker = TrackerProcess(settings)
    drawings: dict[str, Future[Drawn]] = {}
    touched: list[str] = []
    apart: set[str] = set()
    broken: dict[str, RequestError | PreparationError] = {}
    try:
        while not stop.drain.is_set():
            waiting = [i for i in named or patiently(store.waiting_sweeps, UNFINISHED) if i not in touched]
            if not waiting:
                break
            first = patiently(store.sweep, waiting[0])
            if is_whole := first.counts.open == 0:
                is_whole = patiently(grow_from_store, store, first)
                first = patiently(store.sweep, first.id)
                is_whole = is_whole and first.counts.open == 0
            together = waiting if named is not None else None
            queue = SweepQueue(store, settings, first, [first.id] if is_whole or first.id in apart else together)
            others = [row.id for row in patiently(queue.rows) if row.id != first.id]
            try:
                if is_whole:
                    _conclude(store, first, queue)
                else:
                    _run(settings, store, queue, executor, on_progress, stop)
            except (RequestError, PreparationError) as error:
                if others:
                    apart |= {first.id, *others}  # one of them is at fault: which, each by itself will show
                    continue
                broken[first.id] = error
            drawings |= queue.drawings
            touched += [first.id, *(sweep for sweep in queue.drawings if sweep != first.id)]
        if named is None:
            patiently(_draw_missing, settings, store)
    finally:
        tracker.finish(on_wait)
    if broken and len(broken) == len(touched):
        raise _named(store, broken)
    seconds = time.monotonic() - began
    return [_outcome(settings, store, sweep, drawings.get(sweep), seconds, broken.get(sweep)) for sweep in touched]


def _named(store: Store, broken: Mapping[str, RequestError | PreparationError]) -> RequestError | PreparationError:
    """One error for sweeps of which none could be run."""
    rows = map(store.sweep, broken)
    told = "; ".join(f"sweep {row.id} ({row.name}) is {row.state}: {broken[row.id]}" for row in rows)
    wrong = any(isinstance(error, RequestError) for error in broken.values())
    return RequestError(told) if wrong else PreparationError(told)


def _draw_missing(settings: Settings, store: Store) -> None:
    """Draw the reports of ended sweeps whose process died before it could."""
    from orchestrator.reporting import write_own_report

    for row in store.sweeps():
        if row.report is None and row.state in ENDED and row.counts.done:
            path, _ = write_own_report(store, row, settings)
            store.set_report(row.id, str(path))


def _outcome(
    settings: Settings,
    store: Store,
    sweep: str,
    drawing: Future[Drawn] | None,
    seconds: float,
    broken: Exception | None,
) -> RunOutcome:
    row = patiently(store.sweep, sweep)
    return RunOutcome(
        sweep=row,
        drawn=None if drawing is None else drawing.result(),
        seconds=seconds,
        undelivered=patiently(store.undelivered, sweep),
        refusal=patiently(store.refusal, sweep),
        unmirrored=_mirrored(settings, store, row) if row.state in ENDED else None,
        broken=None if broken is None else str(broken),
    )


def _mirrored(settings: Settings, store: Store, sweep: SweepRow) -> str | None:
    """Bring the studies of a sweep in Optuna's store up to date, if the tracker could not; why that fails."""
    if not KINDS.implementation(sweep.kind).proposes:
        return None
    from orchestrator.tuner.mirroring import catch_up

    return patiently(catch_up, store, sweep, settings)


def _conclude(store: Store, sweep: SweepRow, queue: SweepQueue) -> None:
    """End a sweep that has nothing left to compute, without starting a worker."""
    [job] = queue.adopt()
    store.set_sweep_state(sweep.id, SweepState.RUNNING)
    failed = sweep.counts.failed or sweep.counts.cancelled
    store.set_sweep_state(sweep.id, SweepState.FAILED if failed else SweepState.DONE)
    queue.ended(job)
    queue.close()


def _run(
    settings: Settings,
    store: Store,
    queue: SweepQueue,
    executor: ExecutorName,
    on_progress: Callable[[Progress], None],
    stop: StopRequest,
) -> None:
    """Run one queue with its executor."""
    rows = patiently(queue.rows)
    for row in rows:
        load_pinned_plugins(store, row, settings.home / "code")
    runner = _executor(executor, settings, store, rows)
    try:
        Scheduler(store, runner, queue, on_progress, stop).run()
    finally:
        runner.stop()
        queue.close()


def policy_of(sweep: SweepRow) -> Policy:
    """How a stored sweep is run."""
    return Policy(**sweep.spec.get("policy", {}))


def _executor(name: ExecutorName, settings: Settings, store: Store, sweeps: Sequence[SweepRow]) -> Executor:
    """What runs `sweeps`, which are alike."""
    cells = {sweep.id: [*store.cells(sweep.id).values(), *sample_cells(store, sweep)] for sweep in sweeps}
    plugins = dict.fromkeys(module_name(plugin) for sweep in sweeps for plugin in sweep.spec["plugins"])
    prepared = preparation(chain.from_iterable(cells.values()), list(plugins))
    if name == "inline":
        for sweep in sweeps:
            _refuse_edited_code(sweep, cells[sweep.id])
        return InlineExecutor(prepared, settings.kernels)
    from orchestrator.executors.ray_cluster import RayExecutor

    return RayExecutor(prepared, store.code(sweeps[0]), settings, alone=measures_time(sweeps[0].kind))


def measures_time(kind: str) -> bool:
    """Whether trials of `kind` (a name) measure time."""
    return KINDS.implementation(kind).measures_time


def _refuse_edited_code(sweep: SweepRow, cells: Iterable[CellRow]) -> None:
    """In this process only the code as it is now can run; Ray's workers run what was pinned."""
    parts = {(cell.workload["name"], cell.mechanism["name"], cell.device, cell.fingerprint) for cell in cells}
    if any(code_fingerprint(sweep.kind, *named) != pinned for *named, pinned in parts):
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
