"""The ready-made specs say what their comments promise."""

from __future__ import annotations

from pathlib import Path

import pytest

import tasks
from orchestrator.spec import Spec, read_spec

SPECS = Path(tasks.__file__).parent / "specs"
NAMES = sorted(path.relative_to(SPECS).with_suffix("").as_posix() for path in SPECS.rglob("*.yaml"))
EVERY_MECHANISM = {
    "full_attention",
    "knn",
    "recency",
    "streaming_llm",
    "random_eviction",
    "h2o",
    "snapkv",
    "tova",
    "dp_cache",
    "item_lru",
    "item_lfu",
    "optimal",
}


def read(name: str) -> Spec:
    return read_spec(SPECS / f"{name}.yaml")


def budgets(spec: Spec, mechanism: str) -> set[int]:
    return {config.budget for config in spec.mechanism_configs() if config.name == mechanism}  # type: ignore[attr-defined]


def test_specs_are_found() -> None:
    assert {"quick-start", "dpcache/frontier", "movielens"} <= set(NAMES)


def is_suite(name: str) -> bool:
    return "\nsuite:" in (SPECS / f"{name}.yaml").read_text(encoding="utf-8")


SWEEPS = [name for name in NAMES if not is_suite(name)]
WITHOUT_CHANCE = {"dpcache/log-parsing"}
"""Specs in which nothing is random: one seed says all."""


@pytest.mark.parametrize("name", SWEEPS)
def test_a_ready_made_spec_has_no_problem(name: str) -> None:
    spec = read(name)
    configs = [config.identity() for config in spec.mechanism_configs()]
    assert len(configs) >= 2
    assert all(configs.count(config) == 1 for config in configs)
    assert next(iter(spec.workloads()))
    assert len(spec.seeds) >= 3 or name in WITHOUT_CHANCE


@pytest.mark.parametrize("name", NAMES)
def test_a_ready_made_spec_begins_with_what_it_measures(name: str) -> None:
    first = (SPECS / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")
    assert len(first) > 20


def test_no_two_sweeps_share_a_name() -> None:
    names = [read(name).name for name in SWEEPS]
    assert sorted(names) == sorted(set(names))


def test_quick_start_is_small_enough_for_a_demonstration() -> None:
    spec = read("quick-start")
    mechanisms = {config.name for config in spec.mechanism_configs()}
    assert 8 <= len(mechanisms) <= 10
    assert len(list(spec.mechanism_configs())) * len(spec.seeds) <= 1000
    assert spec.episodes == 40
    assert budgets(spec, "recency") == {16, 24, 32, 48, 64, 96, 128, 192, 256}


def test_the_frontier_of_the_paper_has_its_seeds_episodes_and_budgets() -> None:
    spec = read("dpcache/frontier")
    (workload,) = spec.workloads()
    assert workload.flat() == {
        "items": 64,
        "repeats": 4,
        "classes": 16,
        "dim": 32,
        "noise": 0.3,
        "query_noise": 0.0,
    }
    assert (len(spec.seeds), spec.episodes) == (10, 300)
    assert {config.name for config in spec.mechanism_configs()} == EVERY_MECHANISM
    for mechanism in ("recency", "streaming_llm", "h2o", "item_lru", "optimal"):
        assert budgets(spec, mechanism) == {16, 24, 32, 48, 64, 96, 128, 192, 256}


def test_movielens_covers_the_published_comparison() -> None:
    spec = read("movielens")
    (workload,) = spec.workloads()
    assert workload.flat()["dataset"] == "ml-latest-small"
    assert workload.flat()["events"] == 10_000
    for mechanism in ("recency", "streaming_llm", "h2o", "snapkv"):
        assert 1600 in budgets(spec, mechanism)
    similarities = {c.similarity for c in spec.mechanism_configs() if c.name == "dp_cache"}  # type: ignore[attr-defined]
    assert 0.5 in similarities
