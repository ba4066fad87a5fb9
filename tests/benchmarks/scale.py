"""How many workers one orchestrator can feed: the real scheduler, store and logs, and simulated workers.

    make scale                                                           (all of it, for about an hour)
    python tests/benchmarks/scale.py --stores sqlite --shapes fused --trials 10000 100000

Prints what a trial costs in sweeps of 10,000 to 1,000,000 trials, in batches of 20 and one by one, on SQLite and on
Postgres; where the time goes; and how busy workers are by how long a batch takes them. A simulation: it has no network,
no worker computes, and no Ray carries batches.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Engine, event

from orchestrator.job import Job, Progress
from orchestrator.plan import Plan
from orchestrator.runner import SweepQueue, submit_plan
from orchestrator.scheduler import Scheduler, StopRequest
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from orchestrator.store.store import Store

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.simulated_fleet import Behaviour, SimulatedFleet

Shape = Literal["fused", "unfused", "wide"]
Backend = Literal["sqlite", "postgresql"]

TRIALS = (10_000, 100_000, 1_000_000)
UNFUSED_TRIALS = (10_000, 100_000)
WORKERS = 1_000
SATURATING_SECONDS = 0.2
"""Batches that short keep the orchestrator busy all the time."""

BATCH = 20
SPEC = """\
name: scale
kind: frontier
workload: {{name: associative_recall, items: 4, repeats: 1, classes: 2, dim: {dims}, noise: 0.1}}
mechanisms: [{{name: dp_cache, tau: {{linspace: [0.1, 0.9, {mechanisms}]}}}}]
seeds: {seeds}
episodes: 2000
device: cpu
"""
"""Streams long enough for a batch to be what one seed is asked for."""


@dataclass(frozen=True)
class Case:
    """One sweep to run. `wide` has batches as `fused` has, and few seeds: a cell for every ten trials."""

    backend: Backend
    shape: Shape
    trials: int
    workers: int = WORKERS
    behaviour: Behaviour = Behaviour(SATURATING_SECONDS)  # noqa: RUF009

    @property
    def spec(self) -> str:
        """The sweep's spec."""
        mechanisms = 1 if self.shape == "unfused" else BATCH
        seeds = 10 if self.shape == "wide" else self.trials // mechanisms
        dims = self.trials // mechanisms // seeds
        axis = f"{{range: [2, {2 + dims}]}}" if dims > 1 else "2"
        taus = "0.5" if mechanisms == 1 else f"{{linspace: [0.1, 0.9, {mechanisms}]}}"
        return SPEC.format(dims=axis, seeds=seeds, mechanisms=mechanisms).replace(
            f"{{linspace: [0.1, 0.9, {mechanisms}]}}", taus
        )


@dataclass(frozen=True)
class Measured:
    """What a sweep took, in seconds; `elapsed` and `cpu` from its first batch on, without the simulation itself.

    registering      its workers: one transaction each, once
    cpu, server_cpu  of the orchestrator's process; of the database's server, where there is one
    parts            of methods of the store, and of statements on the outbox (which are part of `accept`)
    calls            of methods of the store
    busy             share of the workers' time in which they computed
    growth           seconds of CPU of the fourth fifth of the trials by those of the second fifth; not a number where
                     both came at once
    """

    submitting: float
    registering: float
    elapsed: float
    simulating: float
    cpu: float
    server_cpu: float
    trials: int
    batches: int
    lost: int
    busy: float
    growth: float
    parts: dict[str, float]
    calls: dict[str, int]

    @property
    def trials_a_second(self) -> float:
        """Trials that were stored, by second."""
        return self.trials / self.elapsed

    @property
    def batches_a_second(self) -> float:
        """Batches that were handed out and taken back, by second."""
        return self.batches / self.elapsed


@dataclass(frozen=True)
class Moment:
    """Seconds on each clock."""

    real: float
    virtual: float
    cpu: float
    server_cpu: float

    @classmethod
    def now(cls, fleet: SimulatedFleet, server_cpu: Callable[[], float]) -> Moment:
        """This one."""
        return cls(time.perf_counter(), fleet.clock.now(), time.process_time(), server_cpu())


class UndrawnQueue(SweepQueue):
    """A queue of sweeps as any, without their reports."""

    def ended(self, job: Job) -> None:
        """Nothing is drawn."""


def measure(case: Case, url: str, folder: Path, server_cpu: Callable[[], float] = lambda: 0.0) -> Measured:
    """Run one sweep in the empty database at `url`, with logs in `folder`."""
    settings = Settings.read({"SLOTSWEEP_HOME": str(folder), "SLOTSWEEP_DATABASE_URL": url})
    store = Store.open(url)
    began = time.perf_counter()
    sweep = submit_plan(store, Plan(read_spec(case.spec))).sweep
    submitting = time.perf_counter() - began
    fleet = SimulatedFleet(case.workers, case.behaviour)
    queue = UndrawnQueue(store, settings, store.sweep(sweep), [sweep])
    curve: list[tuple[int, float]] = []
    with timed(store) as (parts, calls):
        began = Moment.now(fleet, server_cpu)
        known: list[Moment] = []

        def note(progress: Progress) -> None:
            curve.append((progress.done + progress.failed, time.process_time() - fleet.own_cpu_seconds))

        fleet.on_first_batch = lambda: known.append(Moment.now(fleet, server_cpu))
        Scheduler(store, fleet, queue, note, StopRequest()).run()
        ended = Moment.now(fleet, server_cpu)
    queue.close()
    counts = store.counts(sweep)
    assert counts.done + counts.failed == counts.total == case.trials, counts
    store.close()
    return Measured(
        submitting=submitting,
        registering=known[0].real - began.real,
        elapsed=ended.real - known[0].real - fleet.own_seconds,
        simulating=fleet.own_seconds,
        cpu=ended.cpu - known[0].cpu - fleet.own_cpu_seconds,
        server_cpu=ended.server_cpu - known[0].server_cpu,
        trials=case.trials,
        batches=fleet.batches,
        lost=fleet.lost,
        busy=fleet.busy_seconds / (case.workers * (ended.virtual - known[0].virtual)),
        growth=_growth(curve, case.trials),
        parts=dict(parts),
        calls=dict(calls),
    )


def _growth(curve: Sequence[tuple[int, float]], trials: int) -> float:
    """See `Measured`: the first fifth has the start in it, the last one the end, when nothing more is handed out."""
    moments = [next(when for done, when in curve if done >= share * trials / 5) for share in (1, 2, 3, 4)]
    early = moments[1] - moments[0]
    return (moments[3] - moments[2]) / early if early else float("nan")


@contextlib.contextmanager
def timed(store: Store) -> Iterator[tuple[Counter[str], Counter[str]]]:
    """Add up seconds and calls of the store's methods, and seconds of statements on the outbox."""
    seconds: Counter[str] = Counter()
    calls: Counter[str] = Counter()

    def watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                seconds[name] += time.perf_counter() - began
                calls[name] += 1

        return call

    names = [name for name in dir(store) if not name.startswith("_") and callable(getattr(store, name))]
    for name in names:
        setattr(store, name, watched(name, getattr(store, name)))
    with _statements(store.engine, "INSERT INTO outbox", seconds):
        yield seconds, calls
    for name in names:
        delattr(store, name)


@contextlib.contextmanager
def _statements(engine: Engine, beginning: str, seconds: Counter[str]) -> Iterator[None]:
    def before(_connection: Any, _cursor: Any, statement: str, _values: Any, context: Any, _many: bool) -> None:
        context.slotsweep_began = time.perf_counter()

    def after(_connection: Any, _cursor: Any, statement: str, _values: Any, context: Any, _many: bool) -> None:
        if statement.startswith(beginning):
            seconds[beginning] += time.perf_counter() - context.slotsweep_began

    event.listen(engine, "before_cursor_execute", before)
    event.listen(engine, "after_cursor_execute", after)
    yield
    event.remove(engine, "before_cursor_execute", before)
    event.remove(engine, "after_cursor_execute", after)


@contextlib.contextmanager
def database(backend: Backend, folder: Path) -> Iterator[tuple[str, Callable[[], float]]]:
    """The URL of an empty database, and what its server has taken of CPUs so far, in seconds."""
    if backend == "sqlite":
        yield f"sqlite:///{folder / 'slotsweep.db'}", lambda: 0.0
        return
    import psutil

    from tests.postgres import start_postgres

    server = start_postgres(folder / "postgres")
    try:
        yield server.get_uri(), lambda: _cpu_of(psutil.Process(server.get_pid()))
    finally:
        server.cleanup()


def _cpu_of(process: Any) -> float:
    """CPU seconds of a process and of all that it started, those that have ended included."""
    import psutil

    total = sum(process.cpu_times()[:4])
    for child in process.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(child.cpu_times()[:4])
    return total


def run_apart(case: Case) -> Measured:
    """Measure in a process of its own, with nothing left in memory of what was measured before."""
    script = [sys.executable, "-P", __file__, "--case", json.dumps(asdict(case))]
    done = subprocess.run(script, stdout=subprocess.PIPE, text=True, check=True)
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def _run_case(text: str) -> None:
    given = json.loads(text)
    case = Case(**{**given, "behaviour": Behaviour(**given["behaviour"])})
    with tempfile.TemporaryDirectory(prefix="slotsweep-scale-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)  # Postgres refuses to run as root, and its own user must come in
        with database(case.backend, folder) as (url, server_cpu):
            print(json.dumps(asdict(measure(case, url, folder, server_cpu))))


def print_costs(backends: Sequence[Backend], shapes: Sequence[Shape], trials: Sequence[int] | None) -> None:
    """What a trial costs, by store, kind of batches and size of the sweep, and where the time goes."""
    print(
        "store       batches     trials   trials/s  batches/s  ms of CPU a trial (server)  4th fifth by 2nd  "
        "submitted/s"
    )
    for backend in backends:
        for shape in shapes:
            for count in trials or (UNFUSED_TRIALS if shape == "unfused" else TRIALS):
                found = run_apart(Case(backend, shape, count))
                _print_cost(backend, shape, found)


def _print_cost(backend: Backend, shape: Shape, found: Measured) -> None:
    cpu, server = (1000 * seconds / found.trials for seconds in (found.cpu, found.server_cpu))
    print(
        f"{backend:<11} {shape:<8} {found.trials:9,} {found.trials_a_second:10,.0f} {found.batches_a_second:10,.0f} "
        f"{cpu:16.3f} ({server:.3f}) {found.growth:22.2f} {found.trials / found.submitting:14,.0f}"
    )
    parts = [part for part in sorted(found.parts.items(), key=lambda part: -part[1]) if part[0] != "register_worker"]
    share = ", ".join(f"{name} {seconds / found.elapsed:.0%}" for name, seconds in parts[:7])
    print(
        f"            {share}; registering workers took {found.registering:.1f} s before, "
        f"the simulation itself {found.simulating:.1f} s beside",
        flush=True,
    )


def print_saturation(backends: Sequence[Backend]) -> None:
    """How busy 1,000 workers are, by how long a batch takes them."""
    print(f"\nstore       batches  seconds a batch   asked/s    had/s   {WORKERS} workers are busy")
    for backend in backends:
        for shape, durations in (("fused", (8.0, 4.0, 2.0, 1.0, 0.5)), ("unfused", (4.0, 2.0, 1.0, 0.5, 0.25))):
            for seconds in durations:
                size = BATCH if shape == "fused" else 1
                case = Case(backend, shape, 10_000 * size, behaviour=Behaviour(seconds, failing=0.01))
                found = run_apart(case)
                had = found.busy * WORKERS / seconds
                rates = f"{WORKERS / seconds:9,.0f} {had:8,.0f} {found.busy:14.0%}"
                print(f"{backend:<11} {shape:<8} {seconds:15.2f} {rates}", flush=True)


def main() -> None:
    """Measure and print."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--stores", nargs="+", choices=("sqlite", "postgresql"), default=("sqlite", "postgresql"))
    asked.add_argument(
        "--shapes", nargs="+", choices=("fused", "unfused", "wide"), default=("fused", "unfused", "wide")
    )
    asked.add_argument("--trials", nargs="+", type=int, help="sizes of the sweeps")
    asked.add_argument("--saturation", action="store_true", help="how busy workers are, and nothing else")
    asked.add_argument("--case", help=argparse.SUPPRESS)
    options = asked.parse_args()
    if options.case:
        _run_case(options.case)
        return
    if not options.saturation:
        print_costs(options.stores, options.shapes, options.trials)
    if options.saturation or not options.trials:
        print_saturation(options.stores)


if __name__ == "__main__":
    main()
