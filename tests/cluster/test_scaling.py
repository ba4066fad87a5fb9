"""Asking an autoscaler for nodes: for one where there is none, for as many again while batches wait, then for none."""

from __future__ import annotations

from functools import partial
from typing import get_args

import pytest
import ray.util
from ray.autoscaler._private.node_provider_availability_tracker import NodeAvailabilitySummary
from ray.autoscaler._private.resource_demand_scheduler import _default_utilization_scorer, get_nodes_for

from orchestrator.cluster.node_types import Cloud
from orchestrator.executors.ray_scaling import A_BIT, NodeRequests, bundle, requests
from orchestrator.fleet import Want
from tests.cluster.rendered import one
from workers.devices import ACCELERATOR_TYPE

CPU, CUDA, T4 = Want("cpu"), Want("cuda"), Want("cuda", "t4")


class Group:
    """A placement group for which there is no node until it `comes`."""

    def __init__(self, wanted: dict[str, float]) -> None:
        self.wanted = wanted
        self.comes = False

    def wait(self, seconds: float) -> bool:
        return self.comes


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Group]:
    """What waits."""
    waiting: list[Group] = []

    def ask(bundles: list[dict[str, float]], strategy: str) -> Group:
        waiting.append(Group(bundles[0]))
        return waiting[-1]

    monkeypatch.setattr(ray.util, "placement_group", ask)
    monkeypatch.setattr(ray.util, "remove_placement_group", waiting.remove)
    return waiting


def test_nodes_are_asked_for_once_until_they_have_come(asked: list[Group]) -> None:
    nodes = NodeRequests()
    nodes.update({})
    assert asked == [], "nobody needs anything"
    for _ in range(3):
        nodes.update({CPU: 2, T4: 1})
    t4 = {"GPU": 1.0, "cuda": 1.0, "accelerator_type:T4": A_BIT}
    assert [group.wanted for group in asked] == [*2 * [{"CPU": 1.0, "cpu_node": A_BIT}], t4]
    asked[-1].comes = True
    nodes.update({CPU: 2, T4: 1})
    assert len(asked) == 2, "what has come is for workers, and not taken by the next request at once"
    nodes.update({CPU: 0, T4: 1})
    assert len(asked) == 3
    nodes.update({T4: 1})
    assert [group.wanted for group in asked] == [t4], "nothing more waits for CPUs"
    nodes.withdraw()
    assert asked == []


@pytest.mark.parametrize(
    ("waiting", "workers", "devices", "more"),
    [
        pytest.param(100, 0, 0.0, 1, id="where there is none, one"),
        pytest.param(100, 8, 8.0, 8, id="as many again"),
        pytest.param(3, 8, 8.0, 3, id="no more than wait"),
        pytest.param(100, 24, 24 / 3, 8, id="three workers share an H100"),
        pytest.param(2, 24, 24 / 3, 1, id="and it is one that two take"),
    ],
)
def test_as_many_are_asked_for_as_there_are(waiting: int, workers: int, devices: float, more: int) -> None:
    assert requests(waiting, workers, devices) == more


def test_what_no_cloud_offers_is_not_asked_for() -> None:
    assert bundle(Want("mps")) == {}
    assert bundle(Want("cpu", machine="ab" * 16)) == {}, "its machine is there, or never comes"


@pytest.mark.parametrize("cloud", get_args(Cloud))
@pytest.mark.parametrize(("want", "models"), [(CPU, {""}), (CUDA, {"T4", "H100"}), (Want("cuda", "h100"), {"H100"})])
def test_a_request_starts_no_machines_but_those_of_its_class(cloud: Cloud, want: Want, models: set[str]) -> None:
    """Ray alone takes machines with GPUs for CPUs, the dearest first, once those without are all there."""
    tree = one(cloud, f"{cloud}.yaml", gpus=[{"model": model, "count": 8} for model in ("T4", "H100")])
    types = tree["available_node_types"]
    scorer = partial(_default_utilization_scorer, node_availability_summary=NodeAvailabilitySummary({}))
    started, _ = get_nodes_for(types, {}, "head", 100, 400 * [bundle(want)], scorer)
    found = {"".join(key for key in types[name]["resources"] if key.startswith(ACCELERATOR_TYPE)) for name in started}
    assert {model.removeprefix(ACCELERATOR_TYPE) for model in found} == models
