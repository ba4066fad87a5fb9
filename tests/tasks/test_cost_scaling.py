"""Cost scaling: memory as it is taken, one size at a time, and the exponents that the rules have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models.devices.device import DEVICE_CLASSES
from models.mechanism import MECHANISMS
from tasks.axes import Axis
from tasks.kind import KINDS
from tasks.kinds.cost_scaling import CostCurve, _exponents
from tasks.summary import Interval, Summary, Value
from tests.tasks.test_kinds import RECALL, column, rows_of, section, workload


def slope(value: Any) -> float:
    assert isinstance(value, Interval)
    return value.mean


def test_full_attention_takes_the_bytes_of_its_arrays_to_build() -> None:
    trees = [{**RECALL, "repeats": 512}]
    (row,) = rows_of("cost_scaling", trees, [{"name": "full_attention"}], 1, 1)
    slots = 8 * 512 * 2 * 8  # a token number and a value of 8 bytes each
    assert slots <= row["metrics.build_peak_bytes"] < 20 * slots


def test_costs_are_fitted_against_one_size_at_a_time_the_others_held() -> None:
    trees = [
        {**RECALL, "items": items, "repeats": 64 * length // items, "dim": dim}
        for length in (1, 2, 4)
        for items in (4, 8, 16)
        for dim in (8, 16, 32)
    ]
    rows = rows_of("cost_scaling", trees, [{"name": "full_attention"}], seeds=2, episodes=1)
    summary = KINDS.implementation("cost_scaling").summarise(rows)
    names = [part.name for part in summary.sections]
    assert [name for name in names if name.startswith("read")] == [
        "read-scaling",
        "read-scaling-items",
        "read-scaling-dim",
    ]
    tokens, items, dim = (section(summary, f"read-scaling{end}") for end in ("", "-items", "-dim"))
    assert [line.x for line in tokens.charts[0].lines] == [(64.0, 128.0, 256.0)] * 9
    assert [line.x for line in items.charts[0].lines] == [(4.0, 8.0, 16.0)] * 9
    assert dim.table is not None
    assert {row[2] for row in dim.table.rows} == {f"tokens {n}, items {k}" for n in (64, 128, 256) for k in (4, 8, 16)}


def test_energy_is_fitted_where_the_machine_tells_it() -> None:
    trees = [{**RECALL, "repeats": repeats} for repeats in (4, 8, 16)]
    rows = rows_of("cost_scaling", trees, [{"name": "full_attention"}], seeds=2, episodes=1)
    names = [part.name for part in KINDS.implementation("cost_scaling").summarise(rows).sections]
    assert "energy-scaling" not in names
    told = [{**row, "energy_joules": 0.5 * row["metrics.tokens"] ** 1.2} for row in rows]
    summary = KINDS.implementation("cost_scaling").summarise(told)
    assert slope(column(section(summary, "energy-scaling"), "exponent")["full_attention"]) == pytest.approx(1.2)
    assert slope(column(section(summary, "times"), "energy_joules")["full_attention"]) > 0


def test_costs_on_a_device_are_those_of_one_stream_and_of_many_at_once() -> None:
    """By the code that runs on CUDA and MPS, here on the CPU."""
    pytest.importorskip("torch")
    shape = workload({**RECALL, "repeats": 4})
    trees = ({"name": "full_attention"}, {"name": "dp_cache"}, {"name": "dp_parser"})
    configs: list[Any] = [MECHANISMS.config_class(tree["name"])(**tree) for tree in trees]
    kind = KINDS.implementation("cost_scaling")
    assert kind.devices() == DEVICE_CLASSES
    for outcomes in kind.evaluate_on("cpu", shape, configs[:2], (0, 1), 2, "float32", None, {}):
        attention, cache = (outcome.metrics for outcome in outcomes)
        assert attention is not None
        assert cache is not None
        for metrics in (attention, cache):
            assert metrics["build_64_us_per_token"] < metrics["build_us_per_token"], "many at once share what is fixed"
            assert metrics["read_64_us_per_query"] > 0
            assert metrics["build_16_us_per_token_iqr"] >= 0
        assert attention["slots"] == attention["tokens"] == 32
    [[good, _, bad]] = kind.evaluate_on("cpu", shape, configs, (0,), 1, "float32", None, {})
    assert good.metrics is not None
    assert (bad.metrics, bad.reason) == (None, "user_error"), "it has no form on a device, and fails alone"


def test_costs_on_a_cpu_are_fitted_against_the_memories_in_one_call() -> None:
    """What a call shares, it pays once: less than in proportion to its memories, and its bytes likewise."""
    trees = [{**RECALL, "repeats": repeats} for repeats in (32, 128)]
    mechanisms: list[dict[str, Any]] = [
        {"name": "dp_cache", "similarity": 0.6},
        {"name": "recency", "budget": 16},
        {"name": "full_attention"},
    ]
    rows = rows_of("cost_scaling", trees, mechanisms, seeds=3, episodes=5)
    summary = KINDS.implementation("cost_scaling").summarise(rows)
    for group in ("build", "read", "memory"):
        table = section(summary, f"{group}-scaling-batch").table
        assert table is not None
        assert len(table.rows) == 4, "two mechanisms whose configs share calls, on two workloads"
        assert {row[-1] for row in table.rows} == {"1 to 64 batch"}
        for row in table.rows:
            exponent = row[table.columns.index("exponent")]
            assert isinstance(exponent, Interval)
            assert exponent.n == 3
            assert exponent.mean < 1.0
    [long] = [
        row
        for row in rows
        if row["workload.repeats"] == 128 and row["mechanism.name"] == "dp_cache" and not row["seed"]
    ]
    assert long["metrics.build_64_us_per_token"] < long["metrics.build_1_us_per_token"]
    assert long["metrics.build_64_peak_bytes"] > long["metrics.build_1_peak_bytes"]


def test_the_two_ways_to_build_a_cache_are_told_apart_in_words() -> None:
    trees = [{**RECALL, "repeats": repeats} for repeats in (1, 2, 4)]
    for name, two in (("dp_cache", True), ("full_attention", False)):
        rows = rows_of("cost_scaling", trees, [{"name": name}], seeds=1, episodes=1)
        built = section(KINDS.implementation("cost_scaling").summarise(rows), "build-scaling")
        assert built.table is not None
        assert built.table.columns == ("mechanism", "measured", "fixed", "exponent", "sizes"), "three sizes fit no more"
        assert ("build, naive" in [row[1] for row in built.table.rows]) == two
        assert ("`build, naive` the loop over tokens" in " ".join(built.text)) == two


def test_an_overhead_that_is_none_is_not_shown_as_a_tiny_one() -> None:
    sizes = 2.0 ** np.arange(9, 17)
    x = np.log(sizes / sizes[0])
    for costs, overhead in ((np.exp(x - 0.01 * x**2), "none found"), (100.0 + np.exp(x), pytest.approx(100.0))):
        curve = CostCurve("m", "build", "build", Axis("tokens"), "", sizes, costs[None], (0,))
        found = _exponents(curve)["overhead"]
        assert (found.mean if isinstance(found, Interval) else found) == overhead


def exponents() -> dict[str, float]:
    """Measured now: of a build, of a read of the cache, and of attention's read, alone and beside an overhead."""
    shape = {"name": "associative_recall", "items": 64, "classes": 16, "dim": 16, "noise": 0.3}
    trees = [{**shape, "repeats": repeats} for repeats in (16, 32, 64, 128, 256)]
    mechanisms: list[dict[str, Any]] = [{"name": "full_attention"}, {"name": "dp_cache", "similarity": 0.6}]
    summary = KINDS.implementation("cost_scaling").summarise(rows_of("cost_scaling", trees, mechanisms, 3, 5))
    apart = "exponent beside overhead"
    assert value_of(summary, "read", ("dp_cache", "read"), apart) == "undefined: grows less than 1.5 times"
    return {
        "build": slope(value_of(summary, "build", ("dp_cache", "build, naive"), "exponent")),
        "cache": slope(value_of(summary, "read", ("dp_cache", "read"), "exponent")),
        "attention": slope(value_of(summary, "read", ("full_attention", "read"), "exponent")),
        "attention beside overhead": slope(value_of(summary, "read", ("full_attention", "read"), apart)),
    }


def value_of(summary: Summary, group: str, row: tuple[str, str], name: str) -> Value:
    """What a table of exponents says of a mechanism and what was measured of it."""
    table = section(summary, f"{group}-scaling").table
    assert table is not None
    [found] = [one for one in table.rows if one[:2] == row]
    return found[table.columns.index(name)]


@pytest.mark.alone
def test_exponents_of_building_and_reading_are_those_of_the_rule() -> None:
    """A build is linear; a read does not grow with the stream, or linearly beside an overhead.

    Measured anew, twice at most, where the machine or other work on it disturbed the times.
    """
    wanted = {"build": (1.0, 0.2), "cache": (0.0, 0.15), "attention beside overhead": (1.0, 0.2)}
    for _ in range(3):
        found = exponents()
        if all(abs(found[name] - one) < by for name, (one, by) in wanted.items()):
            break
    for name, (one, by) in wanted.items():
        assert found[name] == pytest.approx(one, abs=by), name
    assert found["attention"] < found["attention beside overhead"]
