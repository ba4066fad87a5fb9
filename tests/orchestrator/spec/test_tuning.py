"""Tuning specs that are right, and seeds until an interval is narrow: what is read, and that it survives saving."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from orchestrator.spec import Spec, SpecError, canonical, from_canonical, read_spec, starter_spec
from tasks.kinds.tuning import Levels, TuningConfig, Wilcoxon
from tasks.search import Choices, Range
from tasks.sequential import FixedWidth, SeedsUntil

TEXT = """\
name: x
kind: tuning
workload: {name: associative_recall}
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, keep: {values: [first, last]}}
  - {name: h2o, window: 2}
search:
  dp_cache.similarity: {low: 0.1, high: 0.9, step: 0.1}
  dp_cache.cap: {low: 8, high: 64, log: true, when: {dp_cache.temperature: [0.05, 0.1]}}
  dp_cache.temperature: {choices: [0.05, 0.1, 1]}
  h2o.budget: {low: 16, high: 128}
objectives: {recall: maximize, slots: minimize}
constraints: {slots_mean: {at_most: 18}, recall: {at_least: 0.5, at_most: 1}}
trials: 10
sampler: [tpe, {name: nsga2, population: 20}, random]
sampler_seed: 7
repeats: 2
batch: 5
pruner: {name: wilcoxon, first: 4, p: 0.05}
enqueue: [{dp_cache.similarity: 0.6}, {h2o.budget: 40}]
warm_start: 01ABC
held_out: 3
seeds: {count: 8, base: 3}
"""


def saved(spec: Spec) -> Spec:
    return from_canonical(json.loads(json.dumps(canonical(spec), sort_keys=True)))


def tuning(text: str) -> tuple[Spec, TuningConfig]:
    spec = read_spec(text)
    assert isinstance(spec.options, TuningConfig)
    return spec, spec.options


@pytest.mark.usefixtures("fixed_registries")
def test_every_option() -> None:
    spec, options = tuning(TEXT)
    assert options.search == {
        "dp_cache.similarity": Range(low=0.1, high=0.9, step=0.1),
        "dp_cache.cap": Range(low=8, high=64, log=True, when={"dp_cache.temperature": [0.05, 0.1]}),
        "dp_cache.temperature": Choices(choices=[0.05, 0.1, 1]),
        "h2o.budget": Range(low=16, high=128),
    }
    assert options.goal.metrics == ("recall", "slots", "slots_mean")
    assert [one.name for one in options.samplers] == ["tpe", "nsga2", "random"]
    assert (options.trials, options.sampler_seed, options.repeats, options.batch) == (10, 7, 2, 5)
    assert options.stops == Wilcoxon(first=4, p=0.05)
    assert options.enqueue == [{"dp_cache.similarity": 0.6}, {"h2o.budget": 40}]
    assert (options.warm_start, options.held_out, spec.seeds) == ("01ABC", 3, tuple(range(3, 11)))
    assert saved(spec) == spec


@pytest.mark.usefixtures("fixed_registries")
def test_entries_have_the_first_value_of_what_is_searched() -> None:
    spec, _ = tuning(TEXT)
    configs = [config.flat() for config in spec.mechanism_configs()]
    assert [one.get("similarity") for one in configs] == [None, 0.1, 0.1, None]
    assert [one.get("cap") for one in configs[1:3]] == [8, 8]
    assert configs[3]["budget"] == 16


@pytest.mark.usefixtures("fixed_registries")
def test_what_a_condition_keeps_out_is_absent() -> None:
    spec, _ = tuning(TEXT.replace("when: {dp_cache.temperature: [0.05, 0.1]}", "when: {dp_cache.temperature: 1}"))
    assert [config.flat().get("cap") for config in spec.mechanism_configs()] == [None] * 4


@pytest.mark.usefixtures("fixed_registries")
@pytest.mark.parametrize(
    ("word", "stops"),
    [
        ("pruner: none", None),
        ("pruner: wilcoxon", Wilcoxon()),
        (
            "pruner: {name: median, field: mechanism.temperature, levels: [0.1, 0.2]}",
            Levels(name="median", field="mechanism.temperature", levels=[0.1, 0.2]),
        ),
    ],
)
def test_pruners(word: str, stops: Any) -> None:
    text = TEXT.replace("pruner: {name: wilcoxon, first: 4, p: 0.05}", word).replace(", slots: minimize}", "}")
    text = text.replace("  dp_cache.temperature: {choices: [0.05, 0.1, 1]}\n", "")
    text = text.replace(", when: {dp_cache.temperature: [0.05, 0.1]}", "")
    spec, options = tuning(text)
    assert options.stops == stops
    levelled = [config.flat()["temperature"] for config in spec.mechanism_configs()]
    assert levelled == ([0.05, 0.2, 0.2, 0.2] if isinstance(stops, Levels) else [0.05] * 4)
    assert saved(spec) == spec


@pytest.mark.usefixtures("fixed_registries")
def test_a_pruner_over_levels_is_told_what_to_write() -> None:
    with pytest.raises(SpecError, match=r"\{name: median, field: mechanism.steps, levels: \[100, 300, 900\]\}"):
        read_spec(TEXT.replace("pruner: {name: wilcoxon, first: 4, p: 0.05}", "pruner: {name: median}"))


@pytest.mark.usefixtures("fixed_registries")
def test_a_default_pruner_needs_no_minimum_of_seeds() -> None:
    text = TEXT.replace("pruner: {name: wilcoxon, first: 4, p: 0.05}\n", "").replace("count: 8", "count: 1")
    assert read_spec(text).seeds == (3,)


def test_the_starter_searches_what_it_says() -> None:
    spec, options = tuning(starter_spec("tuning"))
    assert list(options.search) == ["dp_cache.tau"]
    assert spec.until is None
    assert saved(spec) == spec


def test_kinds_without_options_have_none() -> None:
    spec = read_spec(starter_spec("frontier"))
    assert (spec.options, spec.until) == (None, None)


def test_a_spec_saved_before_there_were_options() -> None:
    spec = read_spec(starter_spec("frontier"))
    tree = canonical(spec)
    del tree["options"], tree["until"]
    assert from_canonical(tree) == spec


def test_a_saved_spec_of_a_job_type_from_elsewhere() -> None:
    tree = canonical(read_spec(starter_spec("tuning"))) | {"kind": "from_elsewhere"}
    with pytest.raises(SpecError, match="kind `from_elsewhere` is not installed here"):
        from_canonical(tree)


@pytest.mark.parametrize(
    ("seeds", "expected", "until"),
    [
        (
            "{until: {metric: recall, half_width: 0.01, max: 200}}",
            tuple(range(10)),
            SeedsUntil("recall", FixedWidth(0.01, 200)),
        ),
        (
            "{until: {metric: slots_mean, half_width: 2, max: 6}, base: 5}",
            tuple(range(5, 11)),
            SeedsUntil("slots_mean", FixedWidth(2.0, 6)),
        ),
    ],
)
def test_seeds_until_an_interval_is_narrow(seeds: str, expected: tuple[int, ...], until: SeedsUntil) -> None:
    text = starter_spec("frontier")
    line = next(line for line in text.splitlines() if line.startswith("seeds:"))
    spec = read_spec(text.replace(line, f"seeds: {seeds}"))
    assert (spec.seeds, spec.until) == (expected, until)
    assert saved(spec) == spec


def test_overrides_reach_options_and_dimensions() -> None:
    _, options = tuning(starter_spec("tuning"))
    spec = read_spec(starter_spec("tuning"), ["trials=7", "held_out=2", "search.dp_cache.tau.low=0.2"])
    assert isinstance(spec.options, TuningConfig)
    assert (spec.options.trials, spec.options.held_out) == (7, 2)
    assert spec.options.search["dp_cache.tau"] == Range(low=0.2, high=0.95)
    assert spec.options.objectives == options.objectives


NUMBERS = st.floats(0.001, 100, allow_nan=False).map(lambda value: float(f"{value:.12g}"))


@st.composite
def ranges(draw: st.DrawFn, whole: bool) -> dict[str, Any]:
    low = draw(st.integers(1, 50) if whole else NUMBERS)
    high = low + draw(st.integers(1, 50) if whole else NUMBERS)
    more: dict[str, Any] = draw(st.sampled_from([{}, {"log": True}, {"step": 1 if whole else 0.0005}]))
    return {"low": low, "high": high, **more}


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Any]:
    search: dict[str, Any] = {
        "h2o.budget": draw(st.one_of(ranges(whole=True), st.just({"choices": [4, 8]}))),
        "dp_cache.cap": draw(st.one_of(ranges(whole=True), st.just({"choices": [None, 8]}))),
        "dp_cache.keep": {"choices": draw(st.permutations(["first", "last", "majority"]))},
    }
    if draw(st.booleans()):
        search["dp_cache.cap"]["when"] = {"dp_cache.keep": draw(st.sampled_from(["first", ["last", "majority"]]))}
    if draw(st.booleans()):
        search["workload.noise"] = draw(ranges(whole=False))
        search["workload.shuffled"] = {"choices": [True, False]}
    metrics = st.sampled_from(["recall", "slots", "slots_mean", "bytes"])
    bounds = st.dictionaries(st.sampled_from(["at_most", "at_least"]), NUMBERS, min_size=1)
    bounds = bounds.filter(lambda bound: bound.get("at_least", -math.inf) <= bound.get("at_most", math.inf))
    return {
        "name": "x",
        "kind": "tuning",
        "workload": {"name": "associative_recall"},
        "mechanisms": [{"name": "dp_cache"}, {"name": "h2o"}],
        "seeds": draw(st.integers(6, 20)),
        "search": search,
        "objectives": draw(st.dictionaries(metrics, st.sampled_from(["maximize", "minimize"]), min_size=1)),
        "constraints": draw(st.dictionaries(metrics, bounds, min_size=1)),
        "trials": draw(st.integers(1, 1000)),
        "sampler": draw(st.sampled_from(["tpe", "gp", {"name": "nsga3", "population": 9}, ["qmc", "random"]])),
        "pruner": draw(st.sampled_from(["none", "wilcoxon", {"name": "wilcoxon", "first": 4}])),
        "held_out": draw(st.integers(0, 9)),
    }


@pytest.mark.usefixtures("fixed_registries")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees())
def test_any_tuning_spec_survives_saving(tree: dict[str, Any]) -> None:
    spec = read_spec(json.dumps(tree))
    rebuilt = saved(spec)
    assert rebuilt == spec
    assert canonical(rebuilt) == canonical(spec)
    assert list(rebuilt.mechanism_configs()) == list(spec.mechanism_configs())


EDITS = st.lists(
    st.tuples(
        st.integers(0, len(TEXT)),
        st.integers(0, 12),
        st.sampled_from(["", "\n", ": ", "[", "]", "{", "}", ",", "0", "-1", ".nan", "null", "true", "x", ".", "when"]),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.usefixtures("fixed_registries")
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS)
@example(edits=[(TEXT.index("search:"), 7, "search: 3\nx:")])
def test_any_edit_of_a_tuning_spec_is_read_or_reported(edits: list[tuple[int, int, str]]) -> None:
    text = TEXT
    for place, length, piece in edits:
        text = text[:place] + piece + text[place + length :]
    try:
        spec = read_spec(text + "\n")
    except SpecError as error:
        found = error.problems
        assert len({(one.place.line, one.place.column, one.wrong) for one in found}) == len(found) > 0
    else:
        assert saved(spec) == spec
