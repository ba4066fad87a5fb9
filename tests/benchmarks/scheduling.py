"""What a trial costs that computes nothing: scheduling and storage, its run in MLflow, and how both grow with a sweep.

    python tests/benchmarks/scheduling.py

Prints milliseconds a trial for sweeps of 100 to 20,000 trials, in one process and on Ray.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sqlalchemy import func, select

from orchestrator.executors.base import Executor
from orchestrator.executors.inline import InlineExecutor
from orchestrator.executors.ray_cluster import RayExecutor
from orchestrator.outbox import StoreOutbox
from orchestrator.plan import Plan
from orchestrator.runner import SweepQueue, preparation, submit_plan
from orchestrator.scheduler import Scheduler, StopRequest
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from orchestrator.store import schema
from orchestrator.store.engine import reading
from orchestrator.store.store import Store
from orchestrator.tracker.drain import drain
from orchestrator.tracker.opening import open_tracker

SIZES = (100, 1_000, 5_000, 20_000)
ON_RAY = (100, 20_000)
CELLS = 10
END = 1_000
"""Trials at either end of a sweep whose costs are compared."""

IDLE_PLUGIN = '''\
"""A mechanism that does nothing."""

from typing import Literal

import numpy as np

from models.config import MechanismConfig
from models.mechanism import Mechanism, Trace, Usage, mechanism


class IdleConfig(MechanismConfig):
    """Answers nothing right; `variant` makes cells."""

    name: Literal["idle"] = "idle"
    variant: int = 0


@mechanism(IdleConfig)
class Idle(Mechanism[IdleConfig]):
    batch_over = ("variant",)

    def start(self, stream, rng):
        self.none = np.zeros(len(self.configs), dtype=np.int64)

    def write(self, similarities, start, stop):
        pass

    def counts(self):
        return self.none

    def answer(self, block, phase):
        return np.zeros((len(self.configs), len(block)))

    def usage(self):
        return Usage(self.none, self.none)

    def bytes_per_slot(self, dim, key_bytes):
        return 0, 0

    @classmethod
    def reference(cls, stream, config, rng, dtype="float32"):
        return Trace()
'''

SPEC = """\
name: idle
kind: frontier
workload: {{name: associative_recall, items: 2, repeats: 1, classes: 2, dim: 2, noise: 0.1}}
plugins: [idle_memory.py]
mechanisms: [{{name: idle, variant: {{range: [0, {cells}]}}}}]
seeds: {seeds}
episodes: 1
"""


@dataclass(frozen=True)
class Cost:
    """Milliseconds of a trial, but for `growth`.

    elapsed  from the first lease to the last commit
    own      of these, what no worker spent computing, where there is one worker
    run      writing its run to MLflow's SQLite store, afterwards
    growth   cost of the last thousand trials by that of the first
    """

    elapsed: float
    own: float
    run: float
    growth: float


def measure(trials: int, kind: Literal["inline", "ray"], folder: Path) -> Cost:
    """Run one sweep of `trials` in an empty store; its spec and the plug-in lie in `folder`."""
    settings = Settings.read({"SLOTSWEEP_HOME": str(folder / f"{kind}-{trials}")})
    store = Store.open(settings.database_url)
    (folder / "spec.yaml").write_text(SPEC.format(cells=CELLS, seeds=trials // CELLS))
    sweep = submit_plan(store, Plan(read_spec(folder / "spec.yaml"))).sweep
    executor = _executor(kind, settings, store, sweep)
    queue = SweepQueue(store, settings, store.sweep(sweep), [sweep])
    try:
        Scheduler(store, executor, queue, lambda _: None, StopRequest()).run()
    finally:
        executor.stop()
        queue.close()
    assert store.counts(sweep).done == trials
    elapsed, computing, growth = _times(store, trials)
    run = _tracking_seconds(store, settings, sweep)
    store.close()
    return Cost(1000 * elapsed / trials, 1000 * (elapsed - computing) / trials, 1000 * run / trials, growth)


def _executor(kind: Literal["inline", "ray"], settings: Settings, store: Store, sweep: str) -> Executor:
    prepared = preparation(store.cells(sweep).values(), ["idle_memory"])
    if kind == "inline":
        return InlineExecutor(prepared, settings.kernels)
    return RayExecutor(prepared, store.code(store.sweep(sweep)), settings, alone=False)


def _times(store: Store, trials: int) -> tuple[float, float, float]:
    """Seconds of the sweep, seconds that workers computed, and cost of its last END trials by that of its first."""
    attempts, results = schema.attempts.c, schema.results.c
    with reading(store.engine) as connection:
        batches = connection.execute(
            select(attempts.finished, attempts.trials).where(attempts.state == "done").order_by(attempts.finished)
        ).all()
        began = connection.execute(select(func.min(attempts.started))).scalar_one()
        computing = connection.execute(select(func.sum(results.wall_seconds))).scalar_one()
    done = 0
    curve = [(0, began)]
    for finished, size in batches:
        done += size
        curve.append((done, finished))
    first = next((count, when) for count, when in curve if count >= min(END, trials))
    last = next((count, when) for count, when in reversed(curve) if count <= max(0, trials - END))
    early = (first[1] - began) / first[0]
    late = (curve[-1][1] - last[1]) / (trials - last[0])
    return curve[-1][1] - began, computing, late / early


def _tracking_seconds(store: Store, settings: Settings, sweep: str) -> float:
    """Seconds to write every run of the sweep to an MLflow store that exists."""
    settings.artifacts.mkdir(parents=True, exist_ok=True)
    tracker = open_tracker(settings.tracking_uri, str(settings.artifacts))
    tracker.prepare()
    began = time.perf_counter()
    drain(StoreOutbox(store, sweep, "benchmark", 600.0), tracker, threading.Event())
    seconds = time.perf_counter() - began
    assert store.undelivered(sweep) == 0
    tracker.close()
    return seconds


def main() -> None:
    """Measure and print."""
    print("a trial that does nothing      elapsed   scheduling and storage   its MLflow run   last 1,000 by first")
    with tempfile.TemporaryDirectory(prefix="slotsweep-scheduling-") as name:
        (Path(name) / "idle_memory.py").write_text(IDLE_PLUGIN)
        for kind, sizes in (("inline", SIZES), ("ray", ON_RAY)):
            for trials in sizes:
                _print(kind, trials, measure(trials, kind, Path(name)))


def _print(kind: str, trials: int, cost: Cost) -> None:
    own = f"{cost.own:9.3f} ms" if kind == "inline" else " " * 12
    growth = f"{cost.growth:10.2f}" if trials > END else ""
    print(f"{trials:6} {kind:<20} {cost.elapsed:9.3f} ms {own:>22} {cost.run:13.3f} ms {growth:>15}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
