"""Axes and their product."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.config import round_number
from orchestrator.spec import SpecError, read_spec

pytestmark = pytest.mark.usefixtures("fixed_registries")


def spec_text(mechanisms: Any, workload: Any = None) -> str:
    tree = {
        "name": "x",
        "kind": "frontier",
        "workload": workload or {"name": "associative_recall"},
        "mechanisms": mechanisms,
        "seeds": 2,
    }
    return json.dumps(tree)


def values_of(name: str, field: str, axis: str) -> list[Any]:
    text = "\n".join(
        [
            "name: x",
            "kind: frontier",
            "workload: {name: associative_recall}",
            f"mechanisms: [{{name: {name}, {field}: {axis}}}]",
            "seeds: 1",
        ]
    )
    return [getattr(config, field) for config in read_spec(text).mechanism_configs()]


@pytest.mark.parametrize(
    ("axis", "values"),
    [
        ("{values: [0.3, 0.1, 1]}", [0.3, 0.1, 1.0]),
        ("{linspace: [0.1, 0.8, 8]}", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]),
        ("{linspace: [0.5, 0.5, 1]}", [0.5]),
        ("{linspace: [-1, 1, 3]}", [-1.0, 0.0, 1.0]),
        ("{logspace: [1e-3, 1, 4]}", [0.001, 0.01, 0.1, 1.0]),
        ("{range: [0.1, 0.5, 0.1]}", [0.1, 0.2, 0.3, 0.4]),
        ("{range: [0, 3]}", [0.0, 1.0, 2.0]),
        ("{range: [0.5, 0.2, -0.1]}", [0.5, 0.4, 0.3]),
        ("0.30000000000000004", [0.3]),
    ],
)
def test_values_of_a_real_field(axis: str, values: list[float]) -> None:
    assert values_of("dp_cache", "tau", axis) == values


@pytest.mark.parametrize(
    ("axis", "values"),
    [
        ("{values: [16, 64]}", [16, 64]),
        ("{linspace: [16, 64, 4]}", [16, 32, 48, 64]),
        ("{logspace: [16, 256, 5]}", [16, 32, 64, 128, 256]),
        ("{logspace: [1, 10, 20]}", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ("{linspace: [1.0, 9007199254740995, 3]}", [1, 4503599627370498, 9007199254740995]),
        ("{logspace: [1, 9007199254740993, 2]}", [1, 9007199254740993]),
        ("{logspace: [8, 8, 1]}", [8]),
        ("{range: [0, 10, 3]}", [0, 3, 6, 9]),
        ("{range: [9, 0, -3]}", [9, 6, 3]),
        ("{range: [5, 7]}", [5, 6]),
        ("0x10", [16]),
        ("0o20", [16]),
    ],
)
def test_values_of_a_whole_field(axis: str, values: list[int]) -> None:
    found = values_of("h2o", "budget", axis)
    assert found == values
    assert all(type(value) is int for value in found)


def test_an_axis_may_hold_null_text_and_truth() -> None:
    assert values_of("dp_cache", "cap", "{values: [null, 64]}") == [None, 64]
    assert values_of("dp_cache", "keep", "{values: [last, first]}") == ["last", "first"]
    assert values_of("dp_cache", "temperature", "{values: [argmax, 0.05]}") == ["argmax", 0.05]
    workload = {"name": "associative_recall", "shuffled": {"values": [False, True]}}
    spec = read_spec(spec_text([{"name": "full_attention"}], workload))
    assert [config.flat()["shuffled"] for config in spec.workloads()] == [False, True]


def test_a_mapping_is_a_value_where_the_field_takes_mappings() -> None:
    plain = read_spec(spec_text([{"name": "full_attention"}], {"name": "associative_recall", "drift": {"a": 0.5}}))
    assert [config.flat()["drift"] for config in plain.workloads()] == [{"a": 0.5}]
    axis = {"values": [{"a": 0.5}, {"b": 1.0}]}
    swept = read_spec(spec_text([{"name": "full_attention"}], {"name": "associative_recall", "drift": axis}))
    assert [config.flat()["drift"] for config in swept.workloads()] == [{"a": 0.5}, {"b": 1.0}]


def test_derived_fields_follow_the_axis() -> None:
    entries = [{"name": "dp_cache", "similarity": {"linspace": [0.2, 0.8, 3]}}]
    spec = read_spec(spec_text(entries))
    assert [(config.flat()["tau"], config.flat()["similarity"]) for config in spec.mechanism_configs()] == [
        (0.8, 0.2),
        (0.5, 0.5),
        (0.2, 0.8),
    ]


def test_first_axis_is_slowest_and_entries_keep_their_order() -> None:
    entries = [
        {"name": "h2o", "window": {"values": [2, 1]}, "budget": {"values": [8, 4]}},
        {"name": "full_attention"},
    ]
    spec = read_spec(spec_text(entries))
    found = [(c.name, getattr(c, "window", None), getattr(c, "budget", None)) for c in spec.mechanism_configs()]
    assert found == [("h2o", 2, 8), ("h2o", 2, 4), ("h2o", 1, 8), ("h2o", 1, 4), ("full_attention", None, None)]
    assert spec.cells == 5
    assert spec.trials == 10


reals = st.lists(st.floats(-2, 3).map(round_number), min_size=1, max_size=4, unique=True)
wholes = st.lists(st.integers(1, 10**6), min_size=1, max_size=4, unique=True)
words = st.lists(st.sampled_from(["first", "last", "majority"]), min_size=1, max_size=3, unique=True)


@settings(max_examples=60, deadline=None)
@given(
    axes=st.fixed_dictionaries({}, optional={"tau": reals, "cap": wholes, "keep": words}).filter(bool), data=st.data()
)
def test_the_product_holds_every_combination_exactly_once(axes: dict[str, list[Any]], data: st.DataObject) -> None:
    order = data.draw(st.permutations(sorted(axes)))
    entry = {"name": "dp_cache", **{field: {"values": axes[field]} for field in order}}
    spec = read_spec(spec_text([entry]))
    found = [tuple(getattr(config, field) for field in order) for config in spec.mechanism_configs()]
    assert found == list(itertools.product(*(axes[field] for field in order)))
    assert len(set(found)) == len(found) == spec.cells


@settings(max_examples=60, deadline=None)
@given(low=st.floats(-2, 2.9), width=st.floats(0.01, 0.1), count=st.integers(2, 50))
def test_linspace_meets_both_ends_in_rising_order(low: float, width: float, count: int) -> None:
    low, high = round_number(low), round_number(low + width)
    spec = read_spec(spec_text([{"name": "dp_cache", "tau": {"linspace": [low, high, count]}}]))
    taus = [config.flat()["tau"] for config in spec.mechanism_configs()]
    assert (taus[0], taus[-1], len(taus)) == (low, high, count)
    assert taus == sorted(set(taus))


def test_a_clash_is_reported_wherever_in_the_product_it_is() -> None:
    entry = {"name": "h2o", "budget": {"range": [50, 100]}, "window": {"range": [0, 52]}}
    with pytest.raises(SpecError) as caught:
        read_spec(spec_text([entry]))
    assert [problem.wrong for problem in caught.value.problems] == [
        "`mechanisms.0`: `window` is larger than `budget` (at budget = 50, window = 51)"
    ]


def test_a_hundred_thousand_configs_take_seconds(pace: float) -> None:
    entry = {"name": "dp_cache", "tau": {"linspace": [0.01, 0.9, 500]}, "cap": {"range": [1, 201]}}
    spec = read_spec(spec_text([entry]))
    began = time.process_time()
    count = sum(1 for _ in spec.mechanism_configs())
    assert count == 100_000
    assert time.process_time() - began < 4.0 * pace
