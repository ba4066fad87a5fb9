"""Placement on a cluster of fake nodes: an H100, a T4, a Mac and a CPU, all of them this machine in truth.

Ray believes what nodes advertise; workers of accelerators compute by the code for devices, on torch's CPU.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from orchestrator import scheduler
from orchestrator.errors import ExecutorError, RequestError
from orchestrator.executors.base import Event, Joined
from orchestrator.executors.ray_cluster import RayExecutor
from orchestrator.executors.ray_session import free_resources
from orchestrator.fleet import Want
from orchestrator.job import Progress
from orchestrator.machines import planned
from orchestrator.plan import Plan
from orchestrator.preflight import check_before_submitting
from orchestrator.results import result_rows
from orchestrator.runner import SweepQueue, preparation, submit_plan
from orchestrator.scheduler import Scheduler, StopRequest
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from orchestrator.store.store import Store
from tests.faults.place import wait_for
from tests.orchestrator.conftest import make_home
from workers.gcs import Cluster as Records
from workers.host import WorkerCard

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

SPEC = """\
name: fleet
kind: frontier
workload: {name: associative_recall, items: 8, repeats: 2, dim: 8, noise: {linspace: [0.1, 0.9, 10]}}
mechanisms:
  - {name: full_attention}
  - {name: recency, budget: 4}
seeds: 5
episodes: 2
"""

LONG = SPEC.replace("0.9, 10]", "0.9, 40]").replace("seeds: 5", "seeds: 2").replace("episodes: 2", "episodes: 400")
"""Forty batches of about half a second."""

NODES: dict[str, dict[str, Any]] = {
    "cpu": {"num_cpus": 1},
    "h100": {"num_cpus": 1, "num_gpus": 1, "resources": {"cuda": 1, "accelerator_type:H100": 1}},
    "t4": {"num_cpus": 1, "num_gpus": 1, "resources": {"cuda": 1, "accelerator_type:T4": 1}},
    "m3": {"num_cpus": 1, "num_gpus": 1, "resources": {"mps": 1, "accelerator_type:M3": 1}},
}


class FakeCluster:
    """Nodes by name, on one Ray, whose head computes nothing."""

    def __init__(self, nodes: Mapping[str, dict[str, Any]] = NODES) -> None:
        from ray.cluster_utils import Cluster

        self.ray = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self.nodes = {name: self.add(**options) for name, options in nodes.items()}

    def add(self, **options: Any) -> Any:
        return self.ray.add_node(object_store_memory=80 * 2**20, **options)

    def kill(self, name: str) -> None:
        self.ray.remove_node(self.nodes.pop(name), allow_graceful=False)


@pytest.fixture(scope="module")
def cluster() -> Iterator[FakeCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        fake = FakeCluster()
        yield fake
        fake.ray.shutdown()


@pytest.fixture(scope="module")
def settings(cluster: FakeCluster, tmp_path_factory: pytest.TempPathFactory, stock: Path) -> Settings:
    """One home for the module, so that what a worker compiled serves the next one."""
    home = make_home(tmp_path_factory.mktemp("fleet"), stock)
    urls = [f"sqlite:///{home}/{name}.db" for name in ("slotsweep", "mlflow", "optuna")]
    return Settings(home, urls[0], urls[1], cluster.ray.address, urls[2])


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    store = Store.open(settings.database_url)
    yield store
    store.close()


class Watched(RayExecutor):
    """Begins when `expected` workers are ready, and remembers who they were."""

    expected = 1

    def start(self, wants: AbstractSet[Want], given_up: Callable[[], bool]) -> Sequence[WorkerCard]:
        self.cards = list(super().start(wants, given_up))
        while len(self.cards) < self.expected:
            self.wait(0.5)
        return self.cards

    def wait(self, seconds: float) -> list[Event]:
        events = super().wait(seconds)
        self.cards += [event.card for event in events if isinstance(event, Joined)]
        return events


class Run:
    """A sweep of `text`, scheduled on the cluster; `machine_of` as `Plan` has it, None: as the command has it."""

    def __init__(
        self,
        text: str,
        store: Store,
        settings: Settings,
        *,
        workers: int,
        wait: float = 0.0,
        machine_of: Callable[[str], str] | None = None,
    ) -> None:
        self.store = store
        self.said: list[Progress] = []
        spec = read_spec(text)
        spec = replace(spec, policy=replace(spec.policy, wait=wait))
        plan = planned(spec, settings) if machine_of is None else Plan(spec, machine_of)
        self.sweep = submit_plan(store, plan, use_cache=False).sweep
        row = store.sweep(self.sweep)
        prepared = preparation(store.cells(self.sweep).values(), [])
        stand_ins: Any = {"cuda": "cpu", "mps": "cpu"}
        self.executor = Watched(prepared, store.code(row), settings, alone=plan.kind.measures_time, stand_ins=stand_ins)
        self.executor.expected = workers
        self.queue = SweepQueue(store, settings, row, [self.sweep])

    def go(self, on_progress: Callable[[Progress], None] = lambda _: None) -> list[dict[str, Any]]:
        """Rows of the sweep's results."""

        def note(progress: Progress) -> None:
            self.said.append(progress)
            on_progress(progress)

        try:
            Scheduler(self.store, self.executor, self.queue, note, StopRequest()).run()
        finally:
            self.executor.stop()
            self.queue.close()
        return list(result_rows(self.store, self.store.sweep(self.sweep)))

    def models(self, rows: list[dict[str, Any]]) -> set[str | None]:
        """Models of GPU on which the trials of `rows` were computed."""
        models = {card.id: card.accelerator for card in self.executor.cards}
        return {models[row["worker"]] for row in rows}


def test_cuda_trials_go_to_cuda_nodes_and_none_to_the_mac(store: Store, settings: Settings) -> None:
    """Scenario 7: Ray alone would send half of them to the Mac, whose GPU it takes for one like the others."""
    run = Run(SPEC + "device: cuda\n", store, settings, workers=2)
    rows = run.go()
    assert len(rows) == 100
    assert {(row["state"], row["device"]) for row in rows} == {("done", "cuda")}
    assert run.models(rows) == {"H100", "T4"}
    assert {card.device for card in run.executor.cards} == {"cuda"}


def test_trials_for_any_device_use_all_and_say_which(store: Store, settings: Settings) -> None:
    run = Run(SPEC, store, settings, workers=4)
    rows = run.go()
    assert {row["state"] for row in rows} == {"done"}
    assert {row["device"] for row in rows} == {"cpu", "cuda", "mps"}
    assert run.models(rows) == {None, "H100", "T4", "M3"}
    again = submit_plan(store, Plan(read_spec(SPEC)))
    assert (again.trials, again.reused) == (100, 100)


def test_a_model_of_gpu_is_where_it_is_asked_for(store: Store, settings: Settings) -> None:
    run = Run(SPEC + "device: cuda\naccelerator: t4\n", store, settings, workers=1)
    rows = run.go()
    assert {row["state"] for row in rows} == {"done"}
    assert run.models(rows) == {"T4"}


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [("device: cuda\naccelerator: B200", "`accelerator: H100`"), ("device: mps\naccelerator: M4", "`accelerator: M3`")],
)
def test_what_no_node_has_is_refused_with_the_nearest_offer(
    settings: Settings, asked: str, nearest: str, pace: float
) -> None:
    """Scenario 6, within two seconds."""
    plan = Plan(read_spec(SPEC + asked))
    began = time.monotonic()
    with pytest.raises(RequestError, match=f"nearest offer: {nearest}") as refused:
        check_before_submitting(plan, settings)
    assert time.monotonic() - began < 2 * pace
    assert "cuda x 1 (H100)" in str(refused.value)
    assert "mps x 1 (M3)" in str(refused.value)


def test_waiting_is_seen_and_ends_with_an_error_or_with_a_machine_that_joins(
    cluster: FakeCluster, store: Store, settings: Settings
) -> None:
    text = SPEC + "device: mps\naccelerator: M4\n"
    late = Run(text, store, settings, workers=0, wait=5)
    with pytest.raises(ExecutorError, match="is paused: no worker offers mps on M4"):
        Run(text, store, settings, workers=0, wait=0.01).go()
    assert store.sweeps()[0].state == "paused"

    def join(progress: Progress) -> None:
        if progress.waiting is not None and "m4" not in cluster.nodes:
            cluster.nodes["m4"] = cluster.add(num_cpus=1, resources={"mps": 1, "accelerator_type:M4": 1})

    rows = late.go(join)
    assert {(row["state"], row["device"]) for row in rows} == {("done", "mps")}
    assert late.models(rows) == {"M4"}
    assert next(filter(None, (progress.waiting for progress in late.said))).startswith("no worker offers mps on M4")
    assert late.said[-1].waiting is None


def test_a_worker_that_is_let_go_frees_its_node_until_there_is_work(
    cluster: FakeCluster, store: Store, settings: Settings
) -> None:
    want = Want("cuda", "t4")
    run = Run(SPEC + "device: cuda\naccelerator: t4\n", store, replace(settings, autoscales=True), workers=1)
    executor = run.executor

    def free() -> float:
        return free_resources().get(cluster.nodes["t4"].node_id, {}).get("cuda", 0.0)

    try:
        [card] = executor.start({want}, lambda: False)
        wait_for(lambda: free() == 0.0, 10, "the worker's GPU is taken")
        executor.dismiss(card.id, for_good=False)
        wait_for(lambda: free() == 1.0, 10, "the node is idle")
        executor.grow({want}, {})
        assert executor.wait(0.0) == []
        assert executor.shortage({frozenset({want})}) is None, "nothing waits"
        executor.grow({want}, {want: 3})
        [joined] = executor.wait(60)
        assert isinstance(joined, Joined)
        assert joined.card.accelerator == "T4"
    finally:
        executor.stop()
        run.queue.close()


def test_a_preempted_node_gives_its_work_back_and_spends_no_retry(
    cluster: FakeCluster, store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "FLEET_SECONDS", 0.2)  # the sweep is a short one
    records = Records(cluster.ray.address)
    node = cluster.nodes.pop("t4")

    def preempt(progress: Progress) -> None:
        if progress.done >= 20 and not preempted.is_set():
            preempted.set()
            assert records.drain(node.node_id, "spot", 30)

    preempted = threading.Event()
    run = Run(LONG + "device: cuda\nretries: {infrastructure: 0}\n", store, settings, workers=2)
    rows = run.go(preempt)
    assert preempted.is_set()
    assert {row["state"] for row in rows} == {"done"}
    assert run.models(sorted(rows, key=itemgetter("started"))[-8:]) == {"H100"}
    assert "T4" in run.models(rows)
    left = {row["NodeID"]: row for row in records.nodes()}[node.node_id]
    deadline = time.monotonic() + 60
    while left["Alive"] and time.monotonic() < deadline:
        time.sleep(0.2)
        left = {row["NodeID"]: row for row in records.nodes()}[node.node_id]
    assert not left["Alive"], "once its worker is gone, the node goes"
    records.close()


def test_a_killed_node_costs_only_its_running_batches(cluster: FakeCluster, store: Store, settings: Settings) -> None:
    def kill(progress: Progress) -> None:
        if progress.done >= 20 and "h100" in cluster.nodes:
            cluster.kill("h100")

    run = Run(LONG, store, settings, workers=3)
    rows = run.go(kill)
    assert {row["state"] for row in rows} == {"done"}
    assert "h100" not in cluster.nodes
    again = [row for row in rows if row["attempts"] > 1]
    assert len({row["workload.noise"] for row in again}) <= 2, "what the worker held, and nothing else"
