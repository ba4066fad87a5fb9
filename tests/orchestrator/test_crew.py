"""Who will compute: this machine's workers, or those of a cluster as last seen; never a number that nobody knows."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from orchestrator.crew import expected_crew
from orchestrator.plan import Plan
from orchestrator.plan_summary import describe
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from orchestrator.store.store import Store
from tests.orchestrator.test_estimate import MIXED, WARM_UP, compute

CLUSTER = "head.example:6379"


def plan(text: str, device: str = "cpu") -> Plan:
    return Plan(read_spec(f"{text}device: {device}\n"))


def see(store: Store, device: str, count: int, machine: str) -> None:
    """Let workers join."""
    for number in range(count):
        store.register_worker(f"{machine}-{number}", machine, {}, executor="ray", device=device, pid=number)


def test_a_local_ray_has_a_worker_for_each_core(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert expected_crew(plan(MIXED), settings, None).workers == {"cpu": 7}
    timed = MIXED.replace("kind: frontier", "kind: cost_scaling")
    assert expected_crew(plan(timed), settings, None).workers == {"cpu": 1}, "what measures time runs alone"


def test_of_a_cluster_those_count_that_were_last_seen(store: Store, settings: Settings) -> None:
    settings = replace(settings, ray_address=CLUSTER)
    unseen = expected_crew(plan(MIXED), settings, store)
    assert unseen.workers == {"cpu": None}
    assert unseen.basis == f"no worker of the cluster at {CLUSTER} was ever seen in this store"
    see(store, "cpu", 3, "one")
    see(store, "cuda", 2, "two")
    crew = expected_crew(plan(MIXED, "[cpu, cuda, mps]"), settings, store)
    assert crew.workers == {"cpu": 3, "cuda": 2, "mps": None}
    assert crew.basis.startswith("as last seen, at ")
    assert expected_crew(plan(MIXED, "any"), settings, store).workers == {"any": 5}


def test_a_plan_for_several_classes_says_what_each_takes_and_what_is_unknown(store: Store, settings: Settings) -> None:
    compute(store, settings, WARM_UP)
    see(store, "cpu", 3, "one")
    found = describe(plan(MIXED, "[cpu, cuda]"), replace(settings, ray_address=CLUSTER)).estimate.as_json()
    cpu, cuda = found["by_device"]["cpu"], found["by_device"]["cuda"]
    assert (cpu["trials"], cuda["trials"]) == (528, 528)
    assert cpu["workers"] == 3
    assert cpu["low_hours"] < cpu["hours"] < cpu["high_hours"]
    assert 0 < cpu["low_memory_bytes"] < cpu["memory_bytes"] < cpu["high_memory_bytes"]
    assert (cuda["hours"], cuda["workers"], cuda["memory_bytes"]) == (None, None, None)
    assert cuda["basis"].startswith("unknown: no finished trial here yet of dp_cache on cuda, full_attention on cuda")
    assert (found["hours"], found["workers"], found["memory_bytes"]) == (None, None, None), "a part of it is unknown"
    assert found["disk_bytes"] > 2 * 528 * 10_000
    assert found["disk_basis"].startswith("results of 84 such trials of this kind take ")
