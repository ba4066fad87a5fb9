"""Sweeps whose trials find no worker: told at once, waited for as long as was said, then paused; and others go on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Literal

import pytest

from orchestrator import scheduler
from orchestrator.errors import ExecutorError, PreparationError, RequestError
from orchestrator.executors import inline
from orchestrator.executors.base import Event, Joined, Leaving, Refused, Shortage
from orchestrator.executors.inline import InlineExecutor
from orchestrator.fleet import Demand, Node, Want, unmet
from orchestrator.job import Progress
from orchestrator.plan import Plan
from orchestrator.preflight import check_before_submitting
from orchestrator.runner import SweepQueue, preparation, submit_plan
from orchestrator.scheduler import Scheduler, StopRequest
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from orchestrator.store.store import Store
from tests.orchestrator.specs import SMALL
from tests.orchestrator.test_control import SimulatedExecutor
from workers.devices import Offer
from workers.host import WorkerCard

CPU = Node("a", "plain", 8)


def card(name: str, device: Literal["cpu", "cuda", "mps"]) -> WorkerCard:
    return WorkerCard(name, device, 1, "machine", {"cpu_model": "none"})


class Fleet(SimulatedExecutor):
    """A CPU worker, and what happens at the second look for nodes."""

    def __init__(self, *later: Event) -> None:
        super().__init__(1, slow=0.02)
        self.later = list(later)
        self.brought: list[Event] = []
        self.looks = 0
        self.there = [Want("cpu")]

    def start(self, wants: AbstractSet[Want], given_up: Callable[[], bool]) -> Sequence[WorkerCard]:
        return [card("cpu-0", "cpu")]

    def wait(self, seconds: float) -> list[Event]:
        events, self.brought = self.brought, []
        return events or super().wait(seconds)

    def grow(self, wants: AbstractSet[Want], waiting: Mapping[Want, int]) -> None:
        self.looks += 1
        if self.looks < 2:
            return
        self.brought, self.later = self.later, []
        self.there += [Want(event.card.device) for event in self.brought if isinstance(event, Joined)]

    def shortage(self, demands: AbstractSet[Demand]) -> Shortage | None:
        short = [demand for demand in demands if not any(want.met_by(self.there) for want in demand)]
        why = unmet(short, [CPU])
        devices = frozenset(want.device for demand in short for want in demand)
        return None if why is None else Shortage(why, absent=True, devices=devices)


def scheduled(text: str, store: Store, settings: Settings, fleet: Fleet, wait: float = 0.0) -> list[Progress]:
    spec = read_spec(text)
    sweep = submit_plan(store, Plan(replace(spec, policy=replace(spec.policy, wait=wait)))).sweep
    queue = SweepQueue(store, settings, store.sweep(sweep), [sweep])
    said: list[Progress] = []
    try:
        Scheduler(store, fleet, queue, said.append, StopRequest()).run()
    finally:
        queue.close()
    return said


def test_a_sweep_that_no_worker_can_begin_is_paused_with_the_reason(store: Store, settings: Settings) -> None:
    with pytest.raises(ExecutorError, match="is paused: no worker offers cuda; there is plain: 8 cores; nearest offer"):
        scheduled(SMALL + "device: cuda\n", store, settings, Fleet())
    [row] = store.sweeps()
    assert (row.state, row.counts.pending, row.counts.done) == ("paused", 24, 0)


def test_one_that_may_wait_uses_who_joins(store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenario 6: it waits visibly, with the reason."""
    monkeypatch.setattr(scheduler, "FLEET_SECONDS", 1.5)
    fleet = Fleet(Joined(card("cuda-0", "cuda")))
    said = scheduled(SMALL + "device: cuda\n", store, settings, fleet, wait=1)
    assert {row.state for row in store.sweeps()} == {"done"}
    assert {row["device"] for row in store.trial_rows(store.sweeps()[0].id)} == {"cuda"}
    assert any("no worker offers cuda" in str(progress.waiting) for progress in said)
    assert said[-1].waiting is None


@pytest.mark.parametrize(("device", "told"), [("cuda", "CUDA failed to start"), ("mps", "no worker offers mps")])
def test_a_refused_worker_is_the_reason_where_its_class_is_short(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch, device: str, told: str
) -> None:
    monkeypatch.setattr(scheduler, "FLEET_SECONDS", 0.0)
    monkeypatch.setattr(scheduler, "CONTROL_SECONDS", 0.2)
    monkeypatch.setattr(scheduler, "RETURN_SECONDS", 1.0)
    with pytest.raises(ExecutorError, match=f"is paused: {told}"):
        scheduled(SMALL + f"device: [cpu, {device}]\n", store, settings, Fleet(Refused("cuda", "CUDA failed to start")))


def test_what_can_run_runs_before_the_rest_is_given_up(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "RETURN_SECONDS", 0.5)
    with pytest.raises(ExecutorError, match="no worker offers cuda"):
        scheduled(SMALL + "device: [cuda, cpu]\n", store, settings, Fleet())
    [row] = store.sweeps()
    assert (row.state, row.counts.pending, row.counts.done) == ("paused", 24, 24)
    assert {one["device"] for one in store.trial_rows(row.id) if one["state"] == "done"} == {"cpu"}


def test_a_gpu_that_torch_cannot_use_leaves_the_cpu_to_an_inline_sweep(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver shows it, and warming it up fails; that is fatal where nothing else would compute."""

    def broken(device: str, *_: object) -> None:
        raise RuntimeError(f"the driver of {device} is too old")

    monkeypatch.setattr(inline, "this_machine_offers", lambda: Offer(1, cuda=1, accelerator="H100", cuda_memory=80))
    monkeypatch.setattr("workers.host.warm_device", broken)
    sweep = submit_plan(store, Plan(read_spec(SMALL + "device: any\n"))).sweep
    prepared = preparation(store.cells(sweep).values(), [])
    queue = SweepQueue(store, settings, store.sweep(sweep), [sweep])
    Scheduler(store, InlineExecutor(prepared, settings.kernels), queue, lambda _: None, StopRequest()).run()
    queue.close()
    assert {row.state for row in store.sweeps()} == {"done"}
    executor = InlineExecutor(prepared, settings.kernels)
    assert [one.device for one in executor.start({Want("cuda"), Want("cpu")}, lambda: False)] == ["cpu"]
    said = "a worker could not be started on cuda: RuntimeError: the driver of cuda is too old"
    assert executor.wait(0.0) == [Refused("cuda", said)]
    with pytest.raises(PreparationError, match=said):
        executor.start({Want("cuda")}, lambda: False)


def test_a_worker_that_leaves_gets_nothing_more(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "FLEET_SECONDS", 0.0)
    monkeypatch.setattr(scheduler, "CONTROL_SECONDS", 0.0)
    fleet = Fleet(Joined(card("cpu-1", "cpu")), Leaving("cpu-0", "its node is about to leave"))
    text = SMALL.replace("seeds: 4", "seeds: 8").replace("noise: 0.3", "noise: {linspace: [0.1, 0.9, 9]}")
    scheduled(text, store, settings, fleet)
    assert {row.state for row in store.sweeps()} == {"done"}
    assert fleet.dismissed == ["cpu-0"]
    assert {worker.id: worker.state for worker in store.workers()} == {"cpu-0": "stopped", "cpu-1": "stopped"}
    done = {worker.id: worker.done for worker in store.workers()}
    assert done["cpu-1"] > done["cpu-0"]
    assert all(row["attempts"] == 1 for row in store.trial_rows(store.sweeps()[0].id))


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ("device: cuda", "no worker offers cuda; there is this machine"),
        ("device: mps\ndtype: float64", "mps has no float64"),
    ],
)
def test_what_this_machine_cannot_do_is_refused_at_submission(settings: Settings, asked: str, refusal: str) -> None:
    """Without Ray: the fleet is this machine."""
    plan = Plan(read_spec(SMALL + asked + "\n"))
    with pytest.raises(RequestError, match=refusal):
        check_before_submitting(plan, settings)


def test_a_refusal_loads_neither_ray_nor_torch(settings: Settings) -> None:
    """No cluster is configured: what the driver tells is enough, and the answer is there at once."""
    code = (
        "import sys; from orchestrator.cli.app import main; import atexit; "
        "atexit.register(lambda: print([n for n in ('ray', 'torch', 'numba', 'mlflow') if n in sys.modules])); main()"
    )
    spec = settings.home / "spec.yaml"
    spec.write_text(SMALL + "device: cuda\n")
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "run", str(spec)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 2
    assert "no worker offers cuda" in done.stderr
    assert done.stdout.strip() == "[]"
