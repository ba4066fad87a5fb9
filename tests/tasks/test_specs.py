"""The ready-made specs say what their comments promise."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

import tasks
from models.mechanism import MECHANISMS, Mechanism
from orchestrator.spec import Spec, read_spec, read_suite
from tasks.claims import read_claims, sweeps_of
from tasks.workload import WORKLOADS

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


SUITES = {name: suite.members for name in NAMES if (suite := read_suite(SPECS / f"{name}.yaml")) is not None}
SWEEPS = [name for name in NAMES if name not in SUITES]
APART = {"triple-latent/sparse-pointer"}
"""What is of the sister paper alone, and would make the whole paper take long."""

NEEDS_DATA = "/needs-data/"
TUNING = "dpcache/tune-"
WITHOUT_CHANCE = {"dpcache/log-parsing"}
"""Specs in which nothing is random: one seed says all."""


@pytest.mark.parametrize("name", SWEEPS)
def test_a_ready_made_spec_has_no_problem(name: str) -> None:
    spec = read(name)
    configs = [config.identity() for config in spec.mechanism_configs()]
    assert all(configs.count(config) == 1 for config in configs)
    assert spec.cells >= 2 or spec.options is not None  # a study has one cell for all that it will propose
    assert len(spec.seeds) >= 3 or name in WITHOUT_CHANCE


@pytest.mark.parametrize("name", NAMES)
def test_a_ready_made_spec_begins_with_what_it_measures(name: str) -> None:
    first = (SPECS / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")
    assert len(first) > 20


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_names_sweeps(name: str) -> None:
    assert set(SUITES[name]) <= set(SWEEPS)


def test_every_table_and_figure_is_a_spec() -> None:
    tables = {f"dpcache/table-{number}" for number in range(1, 8)}
    figures = {f"dpcache/figure-{number}" for number in (2, 3, 5, 6, 7, 8, 9)}
    assert tables | figures <= set(NAMES)


@pytest.mark.parametrize(("paper", "besides"), [("dpcache", {"movielens"}), ("triple-latent", set())])
def test_the_whole_paper_is_every_sweep_of_its_folder_that_needs_no_data_of_its_own(
    paper: str, besides: set[str]
) -> None:
    ours = {name for name in SWEEPS if name.startswith(f"{paper}/") and NEEDS_DATA not in name}
    assert set(SUITES[f"{paper}/all"]) == {name for name in ours - APART if not name.startswith(TUNING)} | besides


@pytest.mark.parametrize(("paper", "tuned"), [("dpcache", set()), ("triple-latent", {"triple-latent/budget"})])
def test_every_sweep_of_the_paper_is_read_by_a_claim(paper: str, tuned: set[str]) -> None:
    assert set(SUITES[f"{paper}/all"]) == set(sweeps_of(read_claims(paper).claims)) - APART | tuned


def test_every_built_in_mechanism_is_in_a_whole_paper_or_on_the_axis() -> None:
    """Sequence models of the field stand beside the triple-latent paper's, and are in specs of their own."""
    suites = chain.from_iterable(SUITES[name] for name in ("dpcache/all", "triple-latent/all", "axis/all"))
    specs = [read(name) for name in (*suites, "sequence-models", "retrieval/recall")]
    built_in = {name for name in MECHANISMS.names() if MECHANISMS.config_class(name).__module__.startswith("models.")}
    assert built_in <= {config.name for spec in specs for config in spec.mechanism_configs()}


def test_the_axis_has_every_memory_that_reads_streams_untrained() -> None:
    own = {
        name
        for name, config, kind in MECHANISMS
        if config.__module__.startswith("models.")
        and issubclass(kind, Mechanism)
        and not (kind.trained or kind.reads_lines)
    }
    for name in SUITES["axis/all"]:
        assert {config.name for config in read(name).mechanism_configs()} == own


def test_table_3_has_every_way_to_train_a_gate_and_to_let_it_decide() -> None:
    gates = [config.flat() for config in read("dpcache/table-3").mechanism_configs() if config.name == "novelty_gate"]
    assert {gate["objective"] for gate in gates} == {"soft_mask", "straight_through", "gumbel_softmax"}
    assert {gate["keep"] for gate in gates} == {"top_m", "hard"}


def test_the_whole_paper_is_small_enough_for_a_quarter_of_an_hour() -> None:
    """Trials, tokens that mechanisms read, and cosines of each stream (which all mechanisms share)."""
    trials = tokens = cosines = 0
    for name in SUITES["dpcache/all"]:
        spec = read(name)
        trials += spec.trials
        for workload in spec.workloads():
            implementation = WORKLOADS.implementation(workload.name)
            streams = len(spec.seeds) * (spec.episodes or implementation.default_episodes)
            length = implementation.tokens(workload)
            tokens += streams * length * sum(1 for _ in spec.mechanism_configs())
            cosines += streams * length**2
    assert trials < 10_000
    assert tokens < 5e8
    assert cosines < 5e10


def test_no_two_sweeps_share_a_name() -> None:
    names = [read(name).name for name in SWEEPS]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("path", sorted(SPECS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_the_first_line_of_a_spec_is_a_sentence(path: Path) -> None:
    """`slotsweep list specs` shows that line, and nothing else of the file."""
    assert path.read_text(encoding="utf-8").splitlines()[0].endswith((".", "?"))


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
