"""Times on a cluster: whole nodes are kept from other drivers, and each is measured on the machine that its key names.

The nodes are all this machine in truth; those of the second kind count their CPUs otherwise.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import ExecutorError, RequestError
from orchestrator.executors import ray_machines
from orchestrator.executors.ray_session import free_resources
from orchestrator.fleet import cluster_nodes
from orchestrator.job import Progress
from orchestrator.machines import planned
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from orchestrator.store.store import Store
from tests.orchestrator.conftest import SLOTSWEEP, make_home
from tests.orchestrator.test_fake_cluster import FakeCluster, Run
from workers.gcs import Cluster as Records
from workers.hardware import this_machine

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

TIMED = """\
name: timed
kind: cost_scaling
workload: {name: associative_recall, items: 8, repeats: {values: [2, 4, 8]}, dim: 8, noise: 0.3}
mechanisms:
  - {name: full_attention}
  - {name: recency, budget: 4}
seeds: 4
episodes: 3
"""

ORDINARY = TIMED.replace("timed", "ordinary").replace("cost_scaling", "frontier") + "device: cpu\n"

OTHER_KIND = "import os\nos.cpu_count = lambda: 3\n"
"""What Python reads as it starts on nodes of the second kind."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeCluster]:
    """A node of this machine's kind, with a GPU; `other_kind` adds others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        fake = FakeCluster(
            {"here": {"num_cpus": 2, "num_gpus": 1, "resources": {"cuda": 1, "accelerator_type:H100": 1}}}
        )
        yield fake
        fake.ray.shutdown()


@pytest.fixture
def other_kind(cluster: FakeCluster, tmp_path: Path) -> Iterator[list[str]]:
    """Ids of two nodes of another kind of machine."""
    (tmp_path / "sitecustomize.py").write_text(OTHER_KIND)
    names = ["there-1", "there-2"]
    for name in names:
        cluster.nodes[name] = cluster.add(num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
    yield [cluster.nodes[name].node_id for name in names]
    for name in names:
        cluster.kill(name)


@pytest.fixture(scope="module")
def settings(cluster: FakeCluster, tmp_path_factory: pytest.TempPathFactory, stock: Path) -> Settings:
    home = make_home(tmp_path_factory.mktemp("alone"), stock)
    urls = [f"sqlite:///{home}/{name}.db" for name in ("slotsweep", "mlflow", "optuna")]
    return Settings(home, urls[0], urls[1], cluster.ray.address, urls[2])


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    store = Store.open(settings.database_url)
    yield store
    store.close()


class OtherDriver:
    """`slotsweep run` of `text` in a process of its own, with a store of its own, on the same cluster."""

    def __init__(self, text: str, settings: Settings, folder: Path, stock: Path) -> None:
        (folder / "spec.yaml").write_text(text)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLOTSWEEP_")}
        home = {"SLOTSWEEP_HOME": str(make_home(folder, stock)), "RAY_ADDRESS": str(settings.ray_address)}
        self.environment = {**kept, **home}
        self.folder = folder
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [*SLOTSWEEP, "run", "spec.yaml", "--json", "--wait", "2"],
            cwd=folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def says(self, words: str) -> str:
        """The next line that it prints with `words` in it."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if words in line:
                return line
        raise AssertionError(f"it ended without a word of `{words}`: {self.said}")

    def rows(self) -> list[dict[str, Any]]:
        """Its results, once it has ended well."""
        out, err = self.process.communicate(timeout=600)
        assert self.process.returncode == 0, [*self.said, err]
        asked = [*SLOTSWEEP, "results", json.loads(out.splitlines()[-1])["sweep"], "--format", "json"]
        done = subprocess.run(asked, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True)
        return list(json.loads(done.stdout))


def span(store: Store) -> tuple[float, float]:
    """When the trials of the newest sweep computed: from the first's start to the last's end."""
    rows = list(store.trial_rows(store.sweeps()[0].id))
    return min(row["started"] for row in rows), max(row["finished"] for row in rows)


def come_after(folder: Path, store: Store) -> bool:
    """Whether the trials of another driver (its spec lies in `folder`) began after those of `store` had ended."""
    theirs = Store.open(f"sqlite:///{folder}/home/slotsweep.db")
    began, _ = span(theirs)
    theirs.close()
    return began >= span(store)[1]


def test_no_other_driver_computes_on_a_node_where_times_are_measured(
    store: Store, settings: Settings, tmp_path: Path, stock: Path
) -> None:
    others: list[OtherDriver] = []
    left: list[dict[str, float]] = []

    def begin_another(progress: Progress) -> None:
        if progress.done and not others:
            left.extend(free_resources().values())
            others.append(OtherDriver(ORDINARY, settings, tmp_path, stock))
            assert "ordinary: waiting: every place on cpu is taken by others" in others[0].says("waiting")

    run = Run(TIMED, store, settings, workers=1)
    rows = run.go(begin_another)
    assert {row["state"] for row in rows} == {"done"}
    assert not any(node.get(name) for node in left for name in ("CPU", "GPU", "cuda")), "a sweep on cpu holds all of it"
    assert {row["state"] for row in others[0].rows()} == {"done"}
    assert come_after(tmp_path, store)


def test_times_wait_for_a_node_where_another_driver_computes(
    store: Store, settings: Settings, tmp_path: Path, stock: Path
) -> None:
    others: list[OtherDriver] = []

    def begin_another(progress: Progress) -> None:
        if progress.done and not others:
            others.append(OtherDriver(TIMED, settings, tmp_path, stock))
            told = others[0].says("waiting")
            assert "timed: waiting: times are measured on whole nodes, and others compute on each with cpu of" in told

    run = Run(ORDINARY, store, settings, workers=1)
    assert {row["state"] for row in run.go(begin_another)} == {"done"}
    assert {row["state"] for row in others[0].rows()} == {"done"}
    assert come_after(tmp_path, store)


def test_devices_of_one_node_measure_in_turns(store: Store, settings: Settings) -> None:
    run = Run(TIMED + "device: [cpu, cuda]\n", store, settings, workers=2)
    rows = sorted(run.go(), key=itemgetter("started"))
    assert {(row["state"], row["device"]) for row in rows} == {("done", "cpu"), ("done", "cuda")}
    for one, other in pairwise(rows):
        assert one["worker"] == other["worker"] or one["finished"] <= other["started"]


def test_times_are_of_the_machine_in_their_key(store: Store, settings: Settings, other_kind: list[str]) -> None:
    """The key names the kind with the most nodes, which the driver's own is not, and no other node measures."""
    run = Run(TIMED, store, settings, workers=2)
    named = {cell.machine for cell in store.cells(run.sweep).values()}
    assert len(named) == 1
    assert named != {this_machine()}
    assert {row["state"] for row in run.go()} == {"done"}
    assert {card.machine for card in run.executor.cards} == named
    told = {node.id: node.machines.get("cpu") for node in cluster_nodes(str(settings.ray_address)) if node.cpus}
    assert {told[node] for node in other_kind} == named

    here = Run(TIMED, store, settings, workers=1, machine_of=this_machine)
    rows = here.go()
    assert {row["state"] for row in rows} == {"done"}
    assert {card.machine for card in here.executor.cards} == {this_machine()}
    assert {row["worker"] for row in rows} <= {card.id for card in here.executor.cards}


def test_a_machine_that_is_not_there_measures_nothing(store: Store, settings: Settings, cluster: FakeCluster) -> None:
    """Not even where nobody knows what the node is before a worker has started on it."""
    records = Records(cluster.ray.address)
    cluster.nodes["unknown"] = cluster.add(num_cpus=1)
    run = Run(TIMED, store, settings, workers=0, machine_of=lambda _: "0" * 32)
    with pytest.raises(
        ExecutorError, match=r"no worker offers cpu of machine 00000000; there .* kind of machine: submit"
    ):
        run.go()
    assert store.sweep(run.sweep).counts.done == 0
    assert records.machines()[cluster.nodes["unknown"].node_id] == {"cpu": this_machine()}
    cluster.kill("unknown")
    records.close()


def test_a_cluster_that_does_not_tell_its_machines_is_not_waited_for(
    settings: Settings, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(read_spec(TIMED + "device: mps\n"), settings)
    with pytest.raises(RequestError, match=r"no worker offers mps; .* times belong to a machine, which has to"):
        plan.machine_of("mps")
    cluster.nodes["silent"] = cluster.add(num_cpus=0, resources={"mps": 1})
    monkeypatch.setattr(ray_machines, "ASK_SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(ExecutorError, match="did not tell within 0 s what machines measure times on mps"):
        plan.machine_of("mps")
    assert time.monotonic() - began < 12.0
    cluster.kill("silent")
