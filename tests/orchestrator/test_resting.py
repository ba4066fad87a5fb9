"""Where machines come and go with the work, workers that have none are let go, and come back when there is some."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

import pytest

from orchestrator import scheduler
from orchestrator.executors.base import Event, Joined, Shortage
from orchestrator.executors.placing import Openings, places
from orchestrator.executors.ray_scaling import GpuNode
from orchestrator.fleet import Demand, Want
from orchestrator.job import Job
from orchestrator.plan import Plan
from orchestrator.runner import SweepQueue, submit_plan
from orchestrator.scheduler import Scheduler, StopRequest
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from orchestrator.store.store import Store
from tests.benchmarks.simulated_fleet import Behaviour, SimulatedFleet
from tests.faults.place import wait_for
from workers.host import WorkerCard

SPEC = """\
name: {name}
kind: frontier
workload: {{name: associative_recall, items: 4, repeats: 1, dim: 2, noise: {{linspace: [0.1, 0.9, {noises}]}}}}
mechanisms: [{{name: dp_cache, tau: 0.5}}]
seeds: 2
episodes: 200
device: {device}
"""

CPU = Want("cpu")


class ScalingFleet(SimulatedFleet):
    """CPU workers as they are wanted. The last batch ends once its worker is `alone`, if that is waited for."""

    scales = True

    def __init__(self, workers: int, *, alone: bool = False) -> None:
        super().__init__(workers, Behaviour(0.05))
        self.joined: list[WorkerCard] = []
        self._alone = alone

    @property
    def there(self) -> int:
        return len(self._held)

    def grow(self, wants: AbstractSet[Want], waiting: Mapping[Want, int]) -> None:
        self.joined += [card for _ in range(waiting.get(CPU, 0)) if (card := self.replace("")) is not None]

    def shortage(self, demands: AbstractSet[Demand]) -> Shortage | None:
        missing = any(CPU not in demand for demand in demands)
        return Shortage("no worker offers mps", absent=True, devices=frozenset({"mps"})) if missing else None

    def wait(self, seconds: float) -> list[Event]:
        if self.joined:
            joined, self.joined = self.joined, []
            return [Joined(card) for card in joined]
        last = len(self._ends) == 1 and self._alone and self.there > 1
        events = [] if last else super().wait(seconds)
        if not events:
            time.sleep(min(seconds, 0.05))
        return events


class Undrawn(SweepQueue):
    """Without reports."""

    def ended(self, job: Job) -> None:
        """Nothing is drawn."""


class Service:
    """A service's scheduler, on a fleet, in a thread."""

    def __init__(self, store: Store, settings: Settings, fleet: ScalingFleet, *texts: str) -> None:
        self._store = store
        self.sweeps = [self.submit(text) for text in texts]
        self._queue = Undrawn(store, settings, store.sweep(self.sweeps[0]), None)
        self._stop = StopRequest()
        run = Scheduler(store, fleet, self._queue, lambda _: None, self._stop, serving=True).run
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def submit(self, text: str) -> str:
        return submit_plan(self._store, Plan(read_spec(text))).sweep

    def close(self) -> None:
        self._stop.drain.set()
        self._stop.leave.set()
        self.thread.join(20)
        self._queue.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONTROL_SECONDS", "FLEET_SECONDS", "POLL_SECONDS"):
        monkeypatch.setattr(scheduler, name, 0.1)
    monkeypatch.setattr(scheduler, "REST_SECONDS", 0.5)


def test_a_sweep_that_nobody_can_run_holds_no_worker(store: Store, settings: Settings, pace: float) -> None:
    """And what comes after it gets some."""
    fleet = ScalingFleet(16)
    texts = [SPEC.format(name=device, noises=4, device=device) for device in ("cpu", "mps")]
    service = Service(store, settings, fleet, *texts)
    try:
        wait_for(lambda: store.sweep(service.sweeps[0]).state == "done", 20 * pace, "the sweep for CPUs")
        wait_for(lambda: {worker.state for worker in store.workers()} == {"stopped"}, 20 * pace, "the end of workers")
        assert fleet.there == 0
        later = service.submit(SPEC.format(name="later", noises=4, device="cpu").replace("seeds: 2", "seeds: 4"))
        wait_for(lambda: store.sweep(later).state == "done", 20 * pace, "the later sweep")
        assert store.sweep(service.sweeps[1]).state == "running"
        wait_for(lambda: fleet.there == 0, 20 * pace, "the end of its workers")
    finally:
        service.close()


def test_a_long_tail_holds_the_worker_that_computes_it(store: Store, settings: Settings, pace: float) -> None:
    fleet = ScalingFleet(8, alone=True)
    service = Service(store, settings, fleet, SPEC.format(name="tail", noises=12, device="cpu"))
    try:
        wait_for(lambda: store.sweep(service.sweeps[0]).state == "done", 20 * pace, "the last batch, of a worker alone")
    finally:
        service.close()
    assert all(trial["attempts"] == 1 for trial in store.trial_rows(service.sweeps[0]))


def test_a_fleet_that_does_not_scale_keeps_its_workers(store: Store, settings: Settings, pace: float) -> None:
    fleet = ScalingFleet(4)
    fleet.scales = False
    service = Service(store, settings, fleet, *[SPEC.format(name=one, noises=2, device=one) for one in ("cpu", "mps")])
    try:
        wait_for(lambda: store.sweep(service.sweeps[0]).state == "done", 20 * pace, "the sweep for CPUs")
        time.sleep(1.0)
        assert fleet.there == 4
    finally:
        service.close()


def test_any_device_means_cpus_where_machines_are_paid_for(store: Store, settings: Settings) -> None:
    sweep = store.sweep(submit_plan(store, Plan(read_spec(SPEC.format(name="any", noises=2, device="any")))).sweep)
    fleets = (settings, replace(settings, autoscales=True))
    everywhere, paid = (SweepQueue(store, one, sweep, []).job(sweep).demands for one in fleets)
    assert everywhere == {frozenset({CPU, Want("cuda"), Want("mps")})}
    assert paid == {frozenset({CPU})}


def test_as_many_workers_are_started_as_are_wanted() -> None:
    node = GpuNode("a", "p5", 192, 8, gpus=8, accelerator="H100", cuda_memory=640)
    found = places(node, [CPU, Want("cuda"), Want("cuda", "h100")], alone=False)
    assert {place.device for place in found} == {"cuda"}, "CPU workers would keep it from ending"
    openings, started = Openings({CPU: 9, Want("cuda"): 3, Want("cuda", "h100"): 5, Want("cuda", "t4"): 7}), 0
    for place in found:
        if openings.allow(place, node):
            openings.take(place, node)
            started += 1
    assert started == 5
