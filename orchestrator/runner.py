"""Running sweeps in the foreground: workers, tracker and reports around the scheduler."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from models.mechanism import MECHANISMS
from orchestrator.alike import group_of
from orchestrator.code_snapshot import module_name, take_snapshot
from orchestrator.errors import PreparationError, RequestError
from orchestrator.executors.base import Executor
from orchestrator.executors.inline import InlineExecutor
from orchestrator.growth import grow_from_store, growth_of, sample_cells
from orchestrator.job import Job, Progress
from orchestrator.logs import SweepLog
from orchestrator.owner import Owner
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
from orchestrator.store.submitting import AskedSweep
from orchestrator.timing import BUSY, measuring_alone
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
    capped       which cap it has used up, in words; None: none
    """

    sweep: SweepRow
    drawn: Drawn | None
    seconds: float
    undelivered: int
    refusal: str | None
    unmirrored: str | None
    broken: str | None = None
    capped: str | None = None


def submit_plan(store: Store, plan: Plan, *, use_cache: bool = True, user: str | None = None) -> Submitted:
    """As `submit_plans`, of one plan."""
    [submitted] = submit_plans(store, [plan], use_cache=use_cache, user=user)
    return submitted


def submit_plans(
    store: Store,
    plans: Sequence[Plan],
    *,
    use_cache: bool = True,
    user: str | None = None,
    key: str | None = None,
    owner: str | None = None,
) -> list[Submitted]:
    """Store plans as queued sweeps of `user`, all of them or none. key, owner: as `Store.submit_all`'s.

    Raises RequestError where studies cannot begin as they ask.
    """
    asked = [AskedSweep(_new_sweep(store, plan, use_cache, user), plan.trials(), plan.code()) for plan in plans]
    return store.submit_all(asked, key=key, owner=owner)


def _new_sweep(store: Store, plan: Plan, use_cache: bool, user: str | None) -> NewSweep:
    spec = pin_warm_start(store, plan.spec)
    return NewSweep(
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
        user=user,
        fingerprints=plan.fingerprints if plan.kind.proposes else None,
    )


class SweepQueue:
    """The sweeps that one scheduler runs: of those named, or of all that are unfinished, the ones like `first`.

    Which are alike, `orchestrator.alike` tells.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        first: SweepRow,
        named: Sequence[str] | None,
        owner: Owner | None = None,
    ) -> None:
        """owner: whose the sweeps have to be, or become; None: nobody else asks for them"""
        self.drawings: dict[str, Future[Drawn]] = {}
        self._store = store
        self._settings = settings
        self._group = group_of(first)
        self._named = named
        self._owner = owner
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
        return [self.job(row) for row in self.rows()]

    def job(self, row: SweepRow) -> Job:
        """A sweep to be run. Raises RequestError or SpecError where what it grows by cannot be read."""
        policy, growth = policy_of(row), growth_of(self._store, row)
        thrifty = self._settings.autoscales
        return Job(self._store, row, policy, growth, self._settings.trainings, thrifty=thrifty)

    def rows(self) -> list[SweepRow]:
        """The sweeps that `adopt` would take on now."""
        if self._named is not None:
            wanted = self._named
        else:
            wanted = self._store.waiting_sweeps([SweepState.QUEUED] if self._begun else UNFINISHED)
        rows = [self._store.sweep(identity) for identity in wanted if identity not in self._adopted]
        return [row for row in rows if group_of(row) == self._group and self.takes(row.id)]

    def takes(self, sweep: str) -> bool:
        """Whether `sweep` is not another orchestrator's; then it is this one's."""
        return self._owner is None or self._owner.takes(sweep)

    def leave(self, sweep: str) -> None:
        """Let other orchestrators have `sweep`."""
        if self._owner is not None:
            self._owner.leave(sweep)

    def log(self, sweep: str) -> SweepLog:
        """The sweep's log."""
        if sweep not in self._logs:
            self._logs[sweep] = SweepLog(self._settings, sweep)
        return self._logs[sweep]

    def ended(self, job: Job) -> None:
        """Draw the sweep's report, beside whatever else goes on."""
        self.leave(job.sweep.id)
        if self._named is None:
            self._adopted.discard(job.sweep.id)  # it may be queued again: retried, or extended
        self.drawings[job.sweep.id] = self._artist.submit(patiently, self._draw, job.sweep.id)

    def expects_more(self) -> bool:
        """Never: who runs sweeps in the foreground is done when they are."""
        return False

    def close(self) -> None:
        """Wait for the last drawing."""
        self._artist.shutdown()

    def _draw(self, sweep: str) -> Drawn:
        return draw_report(self._store, sweep, self._settings)


def execute(
    settings: Settings,
    store: Store,
    named: Sequence[str] | None,
    *,
    executor: ExecutorName,
    on_progress: Callable[[Progress], None],
    stop: StopRequest,
    owner: Owner,
    on_wait: Callable[[], None] = lambda: None,
) -> list[RunOutcome]:
    """Compute what the sweeps `named` (None: all unfinished ones) miss, keep the tracker fed, draw reports.

    Those that are not `owner`'s, because another orchestrator runs them, are left to that one, without an outcome.
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
            unfinished = patiently(store.waiting_sweeps, UNFINISHED) if named is None else named
            waiting = [one for one in unfinished if one not in touched and owner.takes(one)]
            if not waiting:
                break
            first = patiently(store.sweep, waiting[0])
            is_whole = patiently(has_nothing_to_compute, store, first)
            first = patiently(store.sweep, first.id)
            together = waiting if named is not None else None
            alone = [first.id] if is_whole or first.id in apart else together
            queue = SweepQueue(store, settings, first, alone, owner)
            others = [row.id for row in patiently(queue.rows) if row.id != first.id]
            try:
                if is_whole:
                    conclude(store, first, queue)
                else:
                    run_queue(settings, store, queue, executor, on_progress, stop)
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


def has_nothing_to_compute(store: Store, sweep: SweepRow) -> bool:
    """Whether the store holds all that a sweep asks for; what follows from its results is asked for first."""
    return sweep.counts.open == 0 and grow_from_store(store, sweep) and store.counts(sweep.id).open == 0


def draw_report(store: Store, sweep: str, settings: Settings) -> Drawn:
    """Draw a sweep's report, and note where it lies."""
    from orchestrator.reporting import write_own_report

    path, summary = write_own_report(store, store.sweep(sweep), settings)
    store.set_report(sweep, str(path))
    return Drawn(path, summary)


def _draw_missing(settings: Settings, store: Store) -> None:
    """Draw the reports of ended sweeps whose process died before it could."""
    for sweep in store.undrawn():
        draw_report(store, sweep.id, settings)


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
        capped=_capped(store, row) if row.state == SweepState.PAUSED else None,
    )


def _capped(store: Store, sweep: SweepRow) -> str | None:
    """Which cap a sweep has used up, in words; None: none."""
    caps = policy_of(sweep).caps
    return caps.reached(patiently(store.worker_seconds, sweep.id)) if caps.limited else None


def _mirrored(settings: Settings, store: Store, sweep: SweepRow) -> str | None:
    """Bring the studies of a sweep in Optuna's store up to date, if the tracker could not; why that fails."""
    if not KINDS.implementation(sweep.kind).proposes:
        return None
    from orchestrator.tuner.mirroring import catch_up

    return patiently(catch_up, store, sweep, settings)


def conclude(store: Store, sweep: SweepRow, queue: SweepQueue) -> None:
    """End a sweep that has nothing left to compute, without starting a worker; `queue` has no other."""
    [job] = queue.adopt()
    store.set_sweep_state(sweep.id, SweepState.RUNNING, sweep.state)
    failed = sweep.counts.failed or sweep.counts.cancelled
    store.set_sweep_state(sweep.id, SweepState.FAILED if failed else SweepState.DONE)
    queue.ended(job)
    queue.close()


def run_queue(
    settings: Settings,
    store: Store,
    queue: SweepQueue,
    executor: ExecutorName,
    on_progress: Callable[[Progress], None],
    stop: StopRequest,
    *,
    serving: bool = False,
) -> None:
    """Run one queue with its executor. serving: as `Scheduler`'s. Raises what its sweeps' preparation raises."""
    rows = patiently(queue.rows)
    for row in rows:
        load_pinned_plugins(store, row, settings.home / "code")
    readiness = _Readiness(queue, rows, on_progress)
    runner = _executor(executor, settings, store, rows, readiness.tell)
    try:
        with _machine(executor, settings, rows, on_progress, stop):
            Scheduler(store, runner, queue, on_progress, stop, readiness.over, serving=serving).run()
    finally:
        runner.stop()
        queue.close()


def _machine(
    executor: ExecutorName,
    settings: Settings,
    rows: Sequence[SweepRow],
    on_progress: Callable[[Progress], None],
    stop: StopRequest,
) -> AbstractContextManager[None]:
    """This machine, for `rows` that measure times on it; of a cluster the executor holds whole nodes by itself."""
    if not any(measures_time(row.kind) for row in rows) or (executor == "ray" and settings.ray_address is not None):
        return nullcontext()

    def wait() -> None:
        for row in rows:
            on_progress(_standing(row, BUSY))

    return measuring_alone(stop.drain.wait, wait)


class _Readiness:
    """Says of `rows` what their workers do before the first is there, where that takes long."""

    def __init__(self, queue: SweepQueue, rows: Sequence[SweepRow], on_progress: Callable[[Progress], None]) -> None:
        self._queue = queue
        self._rows = rows
        self._on_progress = on_progress
        self._has_told = False

    def tell(self, what: str) -> None:
        """Say `what`."""
        self._has_told = True
        for row in self._rows:
            self._queue.log(row.id).info("getting ready", message=what)
            self._on_progress(_standing(row, what))

    def over(self) -> None:
        """Workers are there, or will not be."""
        if self._has_told:
            self._has_told = False
            for row in self._rows:
                self._on_progress(_standing(row, None))


def _standing(row: SweepRow, waiting: str | None) -> Progress:
    """How far a sweep is that nothing has been done to yet."""
    counts = row.counts
    return Progress(row.id, row.name, counts.total, counts.done, counts.failed + counts.cancelled, waiting=waiting)


def policy_of(sweep: SweepRow) -> Policy:
    """How a stored sweep is run."""
    return Policy.saved(sweep.spec.get("policy", {}))


def preparation_of(store: Store, sweeps: Sequence[SweepRow]) -> Preparation:
    """What workers must have ready for `sweeps`."""
    plugins = dict.fromkeys(module_name(plugin) for sweep in sweeps for plugin in sweep.spec["plugins"])
    return preparation(chain.from_iterable(_all_cells(store, sweep) for sweep in sweeps), list(plugins))


def _all_cells(store: Store, sweep: SweepRow) -> list[CellRow]:
    """The cells of a sweep, and samples of those that it will ask for."""
    return [*store.cells(sweep.id).values(), *sample_cells(store, sweep)]


def _executor(
    name: ExecutorName, settings: Settings, store: Store, sweeps: Sequence[SweepRow], tell: Callable[[str], None]
) -> Executor:
    """What runs `sweeps`, which are alike. tell: is told what takes long before there are workers."""
    prepared = preparation_of(store, sweeps)
    if name == "inline":
        for sweep in sweeps:
            _refuse_edited_code(sweep, _all_cells(store, sweep))
        return InlineExecutor(prepared, settings.kernels)
    from orchestrator.executors.ray_cluster import RayExecutor
    from orchestrator.executors.ray_preparing import PLUGIN_SECONDS

    timeouts = [policy_of(sweep).timeout for sweep in sweeps]
    return RayExecutor(
        prepared,
        store.code(sweeps[0]),
        settings,
        alone=measures_time(sweeps[0].kind),
        tell=tell,
        plugin_seconds=max(PLUGIN_SECONDS if one is None else min(one, PLUGIN_SECONDS) for one in timeouts),
    )


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
