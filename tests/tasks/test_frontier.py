"""Summaries of results: points, curves, panels, and what a reader is warned of."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tasks.frontier import summarise
from tasks.summary import Curve, Point, Summary

WORKLOAD = {"name": "associative_recall", "items": 64, "noise": 0.3}
SLOT_BYTES = 132


def row(
    mechanism: dict[str, Any],
    seed: int,
    recall: float | None,
    slots: float | None = None,
    *,
    workload: dict[str, Any] = WORKLOAD,
    state: str = "done",
    **more: Any,
) -> dict[str, Any]:
    """One result, in the columns of the results contract."""
    size = slots if slots is not None else mechanism.get("budget")
    metrics = {
        "recall": recall,
        "recall_all": recall,
        "chance": 0.0625,
        "slots": size,
        "slots_peak": size,
        "bytes": None if size is None else size * SLOT_BYTES,
    }
    return {
        "state": state,
        "reason": None,
        "seed": seed,
        "episodes": 300,
        **{f"workload.{key}": value for key, value in workload.items()},
        **{f"mechanism.{key}": value for key, value in mechanism.items()},
        **({f"metrics.{key}": value for key, value in metrics.items()} if state == "done" else {}),
        "hw.cpu_model": "Zen",
        **more,
    }


def rows_of(mechanism: str, points: dict[int, float], seeds: int = 3, **fields: Any) -> list[dict[str, Any]]:
    """Rows of a bounded mechanism: budget -> recall, a little different for each seed."""
    return [
        row({"name": mechanism, "budget": budget, **fields}, seed, recall - 0.01 * seed)
        for budget, recall in points.items()
        for seed in range(seeds)
    ]


def curves(summary: Summary) -> dict[str, Curve]:
    (panel,) = summary.panels
    return {curve.label: curve for curve in panel.curves}


def recalls(curve: Curve) -> list[float]:
    return [round(point.metrics["recall"].mean, 6) for point in curve.points]


# A seed study: mean, n, interval, method (scenario 27)


def test_scenario_27_five_seeds_give_mean_n_interval_and_method() -> None:
    summary = summarise(rows_of("h2o", {64: 0.9}, seeds=5))
    interval = curves(summary)["h2o"].points[0].metrics["recall"]
    assert interval.mean == pytest.approx(0.88)
    assert interval.n == 5
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low < 0.88 < interval.high
    assert interval.method == "Student t over 5 seeds"
    assert summary.warnings == ()


def test_scenario_27_one_seed_is_undefined_not_zero_and_warned_of() -> None:
    summary = summarise(rows_of("h2o", {32: 0.7, 64: 0.9}, seeds=1))
    curve = curves(summary)["h2o"]
    undefined = [curve.points[0].metrics["recall"], curve.hypervolume["slots"], curve.area["bytes"]]
    for interval in undefined:
        assert interval is not None
        assert (interval.low, interval.high, interval.method) == (None, None, "undefined: one seed")
    assert any("one seed" in warning for warning in summary.warnings)


def test_a_perfect_recall_has_the_interval_of_its_episodes() -> None:
    rows = [row({"name": "full_attention"}, seed, 1.0, 256) for seed in range(10)]
    point = curves(summarise(rows))["full_attention"].points[0]
    assert point.metrics["recall"].method == "exact binomial over 3000 episodes: all 10 seeds are equal"
    assert point.metrics["recall"].low == pytest.approx(0.99877, abs=1e-5)
    assert point.metrics["slots"].method == "no spread: all 10 seeds are equal"


def test_a_recording_has_no_count_of_independent_episodes() -> None:
    rows = [row({"name": "full_attention"}, seed, 1.0, 256, episodes=1) for seed in range(5)]
    assert curves(summarise(rows))["full_attention"].points[0].metrics["recall"].method.startswith("no spread")


def test_limits_of_a_share_stay_within_0_and_1() -> None:
    rows = [row({"name": "h2o", "budget": 64}, seed, recall) for seed, recall in enumerate([1.0, 1.0, 0.9])]
    assert curves(summarise(rows))["h2o"].points[0].metrics["recall"].high == 1.0


# Frontier, hypervolume, area (scenario 28)


def test_scenario_28_dominated_points_are_off_the_frontier_and_ties_stay() -> None:
    rows = rows_of("h2o", {16: 0.5, 32: 0.7, 48: 0.6, 64: 0.9})
    rows += [row({"name": "h2o", "budget": 65}, seed, 0.9 - 0.01 * seed, slots=64) for seed in range(3)]
    curve = curves(summarise(rows))["h2o"]
    on = {point.settings["budget"]: point.on_frontier for point in curve.points}
    assert on == {
        16: {"slots": True, "bytes": True},
        32: {"slots": True, "bytes": True},
        48: {"slots": False, "bytes": False},
        64: {"slots": True, "bytes": True},
        65: {"slots": True, "bytes": True},
    }


def test_scenario_28_hypervolume_with_a_stated_reference_and_area_by_hand() -> None:
    rows = [row({"name": "full_attention"}, seed, 1.0, 256) for seed in range(3)]
    rows += [row({"name": "h2o", "budget": b}, s, r) for b, r in ((64, 0.5), (128, 0.75), (32, 0.25)) for s in range(3)]
    summary = summarise(rows)
    curve = curves(summary)["h2o"]
    assert summary.panels[0].reference == {"slots": 256.0, "bytes": 256.0 * SLOT_BYTES}
    assert summary.panels[0].size_range == {"slots": (32.0, 256.0), "bytes": (32.0 * SLOT_BYTES, 256.0 * SLOT_BYTES)}
    for axis in ("slots", "bytes"):
        volume, area = curve.hypervolume[axis], curve.area[axis]
        assert volume is not None
        assert area is not None
        assert volume.mean == pytest.approx((32 * 0.25 + 64 * 0.5 + 128 * 0.75) / 256)
        assert area.mean == pytest.approx((0.25 + 0.5 + 0.75) / 3)
        assert volume.n == 3
        assert volume.method.startswith("no spread")


def test_scenario_28_size_is_measured_never_nominal() -> None:
    rows = [
        row({"name": "dp_cache", "tau": tau}, seed, 0.9, slots)
        for tau, slots in ((0.4, 60), (0.6, 40))
        for seed in (0, 1)
    ]
    rows += [row({"name": "h2o", "budget": 1000}, seed, 0.5, slots=50 + seed) for seed in (0, 1)]
    summary = summarise(rows)
    assert [point.metrics["slots"].mean for point in curves(summary)["dp_cache"].points] == [40, 60]
    assert curves(summary)["h2o"].points[0].metrics["bytes"].mean == 50.5 * SLOT_BYTES
    assert summary.panels[0].size_range["slots"] == (40.0, 60.0)


def test_the_reference_is_the_whole_stream_where_it_is_counted_else_the_largest_peak() -> None:
    rows = rows_of("snapkv", {16: 0.5, 64: 0.9})
    assert summarise(rows).panels[0].reference == {"slots": 64.0, "bytes": 64.0 * SLOT_BYTES}
    peaks = [{**r, "metrics.slots_peak": 200, "metrics.bytes_peak": 200 * SLOT_BYTES} for r in rows]
    assert summarise(peaks).panels[0].reference == {"slots": 200.0, "bytes": 200.0 * SLOT_BYTES}
    counted = [{**r, "metrics.tokens": 256} for r in peaks]
    assert summarise(counted).panels[0].reference == {"slots": 256.0, "bytes": 200.0 * SLOT_BYTES}


def test_a_memory_of_size_0_has_a_point_but_no_place_on_the_log_axis() -> None:
    summary = summarise(rows_of("recency", {0: 0.05, 16: 0.3, 32: 0.4}))
    assert summary.panels[0].size_range["slots"] == (16.0, 32.0)
    assert recalls(curves(summary)["recency"]) == [0.04, 0.29, 0.39]


def test_a_single_size_has_a_hypervolume_but_no_area() -> None:
    curve = curves(summarise(rows_of("h2o", {64: 0.9})))["h2o"]
    assert curve.area == {"slots": None, "bytes": None}
    assert curve.hypervolume["slots"] is not None


# Cells, curves and panels


def test_points_rise_in_measured_size_whatever_the_order_of_rows() -> None:
    rows = rows_of("h2o", {64: 0.9, 16: 0.5, 32: 0.7})
    for order in (rows, rows[::-1]):
        curve = curves(summarise(order))["h2o"]
        assert [point.settings for point in curve.points] == [{"budget": 16}, {"budget": 32}, {"budget": 64}]


def test_points_of_one_size_stay_in_the_order_of_the_spec() -> None:
    """Budgets beyond what an item cache ever fills measure the same size, over seeds with odd means."""
    slots = np.random.default_rng(0).uniform(63, 64, 10)
    rows = [
        row({"name": "item_lru", "budget": budget}, seed, 0.99, slots[seed])
        for budget in (64, 96, 128, 192, 256)
        for seed in range(10)
    ]
    (curve,) = curves(summarise(rows)).values()
    assert [point.settings["budget"] for point in curve.points] == [64, 96, 128, 192, 256]
    assert all(point.on_frontier["slots"] for point in curve.points)


def test_text_splits_a_mechanism_into_curves_and_numbers_do_not() -> None:
    rows = rows_of("h2o", {16: 0.5, 32: 0.7}, variant="heavy_hitter", temperature=0.13)
    rows += rows_of("h2o", {16: 0.4, 32: 0.6}, variant="half_recent", temperature=0.13)
    rows += rows_of("tova", {16: 0.4}, temperature=0.05)
    summary = summarise(rows)
    assert list(curves(summary)) == ["h2o heavy_hitter", "h2o half_recent", "tova"]
    assert [curve.mechanism for curve in summary.panels[0].curves] == ["h2o", "h2o", "tova"]


def test_switches_are_named_by_their_field() -> None:
    rows = rows_of("snapkv", {16: 0.5}, pooling=True) + rows_of("snapkv", {16: 0.4}, pooling=False)
    assert list(curves(summarise(rows))) == ["snapkv pooling", "snapkv no pooling"]


def test_values_that_two_fields_share_are_named_by_their_field() -> None:
    rows = [
        row({"name": "dp_cache", "tau": 0.4, "keep": keep, "keys": keys}, seed, 0.9, 64)
        for keep, keys in (("first", "first"), ("last", "first"), ("last", "centroid"))
        for seed in (0, 1)
    ]
    labels = ["dp_cache keep first keys first", "dp_cache last keys first", "dp_cache last centroid"]
    assert list(curves(summarise(rows))) == labels


def test_options_of_other_memories_neither_name_a_memory_nor_split_it() -> None:
    memories = [("append", "bare", "last", 64), ("novelty", "bare", "last", 64), ("novelty", "bare", "mean", 256)]
    memories += [("pointer", "projected", "last", 64)]
    rows = [
        row({"name": "triple_retrieval", "memory": memory, "keys": keys, "keep": keep, "slots": slots}, 0, 0.9, 64)
        for memory, keys, keep, slots in memories
    ]
    owned = ["append", "novelty last", "novelty mean", "pointer"]
    assert list(curves(summarise(rows))) == [f"triple_retrieval {name}" for name in owned]


def test_a_number_in_one_cell_and_a_word_in_another_make_two_curves() -> None:
    rows = rows_of("h2o", {16: 0.5}, temperature=0.1) + rows_of("h2o", {16: 0.6}, temperature=0.2)
    rows += rows_of("h2o", {16: 0.4}, temperature="argmax")
    found = curves(summarise(rows))
    assert list(found) == ["h2o", "h2o argmax"]
    assert [point.settings for point in found["h2o"].points] == [{"temperature": 0.1}, {"temperature": 0.2}]


def test_a_number_that_may_be_absent_is_a_setting() -> None:
    rows = [row({"name": "dp_cache", "cap": cap}, seed, 0.9, cap or 256) for cap in (64, None) for seed in (0, 1)]
    (curve,) = curves(summarise(rows)).values()
    assert [point.settings for point in curve.points] == [{"cap": 64}, {"cap": None}]


def test_tau_and_similarity_are_shown_together() -> None:
    rows = [
        row({"name": "dp_cache", "tau": tau, "similarity": 1 - tau, "keep": "first"}, seed, 0.9, slots)
        for tau, slots in ((0.5, 50), (0.25, 64))
        for seed in (0, 1)
    ]
    (curve,) = curves(summarise(rows)).values()
    assert [point.settings for point in curve.points] == [
        {"tau": 0.5, "similarity": 0.5},
        {"tau": 0.25, "similarity": 0.75},
    ]


def test_columns_that_are_none_count_as_absent() -> None:
    sparse = rows_of("h2o", {16: 0.5}, seeds=2) + [
        row({"name": "dp_cache", "tau": 0.4}, seed, 0.9, 64) for seed in (0, 1)
    ]
    columns = dict.fromkeys(name for r in sparse for name in r)
    dense = [{name: r.get(name) for name in columns} for r in sparse]
    assert summarise(dense) == summarise(sparse)


def test_lists_in_a_config_are_fine() -> None:
    rows = [
        row({"name": "h2o", "budget": 16}, seed, 0.5, workload={**WORKLOAD, "phases": phases})
        for phases in ([6, 30], [6, 60])
        for seed in (0, 1)
    ]
    assert [panel.title for panel in summarise(rows).panels] == ["phases [6, 30]", "phases [6, 60]"]


@pytest.mark.parametrize(
    ("workloads", "titles"),
    [
        ([WORKLOAD], ["associative_recall"]),
        ([WORKLOAD, {**WORKLOAD, "items": 128}], ["items 64", "items 128"]),
        ([WORKLOAD, {**WORKLOAD, "items": 128, "noise": 0.1}], ["items 64, noise 0.3", "items 128, noise 0.1"]),
        (
            [WORKLOAD, {**WORKLOAD, "noise": 0.1}, {"name": "movielens", "events": 10_000}],
            ["associative_recall, noise 0.3", "associative_recall, noise 0.1", "movielens"],
        ),
        (
            [{"name": "movielens", "events": None}, {"name": "movielens", "events": 10_000}],
            ["movielens", "events 10000"],
        ),
    ],
)
def test_a_panel_is_titled_by_what_differs(workloads: list[dict[str, Any]], titles: list[str]) -> None:
    rows = [row({"name": "h2o", "budget": 16}, seed, 0.5, workload=w) for w in workloads for seed in (0, 1)]
    summary = summarise(rows)
    assert [panel.title for panel in summary.panels] == titles
    assert summary.panels[0].chance == 0.0625
    assert summary.panels[-1].workload == {key: value for key, value in workloads[-1].items() if value is not None}


# What is missing, and what a reader is told


def point_of(summary: Summary, budget: int) -> Point:
    return next(p for curve in summary.panels[0].curves for p in curve.points if p.settings["budget"] == budget)


def test_failed_and_missing_trials_stay_visible() -> None:
    rows = rows_of("h2o", {16: 0.5, 32: 0.7, 64: 0.9}, seeds=4)
    rows[5] = {**rows[5], "state": "failed", "reason": "out_of_memory"}
    rows[6] = {**rows[6], "state": "failed", "reason": "timeout"}
    for index in range(8, 12):
        rows[index] = row({"name": "h2o", "budget": 64}, index - 8, None, state="pending")
    summary = summarise(rows)
    whole, torn, empty = (point_of(summary, budget) for budget in (16, 32, 64))
    assert (whole.seeds, whole.done, whole.failed) == (4, 4, 0)
    assert (torn.seeds, torn.done, torn.failed) == (4, 2, 2)
    assert torn.metrics["recall"].n == 2
    assert (empty.seeds, empty.done, empty.failed) == (4, 0, 0)
    assert empty.metrics == {}
    assert empty.on_frontier == {"slots": False, "bytes": False}
    assert any("2 of 12 trials failed (out_of_memory 1, timeout 1)" in warning for warning in summary.warnings)
    assert any("4 of 12 trials have no result (yet)" in warning for warning in summary.warnings)


def test_a_failed_seed_is_left_out_of_the_mean_though_it_has_metrics() -> None:
    rows = rows_of("h2o", {16: 0.5}, seeds=3)
    rows[0] = {**rows[0], "state": "failed", "metrics.recall": 0.0}
    assert recalls(curves(summarise(rows))["h2o"]) == [0.485]


def test_seeds_are_undefined_when_only_one_finished() -> None:
    rows = rows_of("h2o", {16: 0.5, 32: 0.7}, seeds=3)
    rows = [r if r["seed"] == 0 else {**r, "state": "pending"} for r in rows]
    curve = curves(summarise(rows))["h2o"]
    assert curve.hypervolume["slots"] is not None
    assert (curve.hypervolume["slots"].n, curve.hypervolume["slots"].low) == (1, None)


def test_nothing_finished() -> None:
    rows = [row({"name": "h2o", "budget": 16}, seed, None, state="leased") for seed in range(3)]
    summary = summarise(rows)
    (panel,) = summary.panels
    assert (panel.chance, panel.reference, panel.size_range) == (None, {}, {})
    assert panel.curves[0].hypervolume == panel.curves[0].area == {"slots": None, "bytes": None}
    assert panel.curves[0].points[0].metrics == {}


def test_no_rows_at_all() -> None:
    assert summarise([]) == Summary((), ("there are no trials",))


def test_a_curve_that_failed_altogether_stands_beside_one_that_did_not() -> None:
    rows = rows_of("h2o", {16: 0.5, 32: 0.7}) + [
        row({"name": "full_attention"}, seed, None, state="failed", reason="out_of_memory") for seed in range(3)
    ]
    summary = summarise(rows)
    assert curves(summary)["full_attention"].hypervolume == {"slots": None, "bytes": None}
    assert summary.panels[0].reference == {"slots": 32.0, "bytes": 32.0 * SLOT_BYTES}


def test_missing_metrics_are_left_out_one_by_one() -> None:
    rows = rows_of("h2o", {16: 0.5, 32: 0.7}, seeds=3)
    rows[0]["metrics.energy_joules"] = 3.5
    rows[1]["metrics.energy_joules"] = None
    rows[1]["metrics.energy_joules_reason"] = "not readable here"
    rows[3]["metrics.recall"] = None
    del rows[4]["metrics.recall"]
    rows[5]["metrics.recall"] = float("inf")
    first, second = curves(summarise(rows))["h2o"].points
    assert first.metrics["energy_joules"].n == 1
    assert "recall" not in second.metrics
    assert "energy_joules_reason" not in first.metrics
    assert second.metrics["slots"].n == 3
    assert second.on_frontier["slots"] is False


def test_mixed_machines_are_warned_of() -> None:
    rows = rows_of("h2o", {16: 0.5})
    rows[0]["hw.cpu_model"] = "Xeon"
    rows[1]["hw.threads"] = 4
    rows[2]["hw.threads"] = 2
    (cpu, threads) = summarise(rows).warnings
    assert cpu.startswith("mixed hardware: 2 CPU models (Xeon, Zen)")
    assert threads.startswith("mixed hardware: 2 thread counts (2, 4)")


def test_a_machine_whose_trials_did_not_finish_does_not_mix() -> None:
    rows = rows_of("h2o", {16: 0.5})
    rows.append(row({"name": "h2o", "budget": 16}, 3, None, state="pending", **{"hw.cpu_model": "Xeon"}))
    assert not any("mixed" in warning for warning in summarise(rows).warnings)


def test_repeated_rows_count_once_and_are_warned_of() -> None:
    rows = rows_of("h2o", {16: 0.5}, seeds=2)
    summary = summarise([*rows, {**rows[0], "metrics.recall": 0.7}])
    point = curves(summary)["h2o"].points[0]
    assert (point.seeds, point.metrics["recall"].n) == (2, 2)
    assert point.metrics["recall"].mean == pytest.approx((0.7 + 0.49) / 2)
    assert any("1 rows repeat" in warning for warning in summary.warnings)


def test_the_same_rows_give_the_same_summary() -> None:
    rows = rows_of("h2o", {16: 0.5, 32: 0.7}, seeds=5)
    assert summarise(rows) == summarise(list(rows))


def many_rows(cells: int, seeds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    names = ("full_attention", "h2o", "recency", "dp_cache", "snapkv")
    machine = {f"hw.field_{index}": index for index in range(20)}
    return [
        row(
            {"name": names[cell % 5], "budget": 16 + cell, "temperature": 0.05},
            seed,
            float(rng.random()),
            **machine,
            **{f"metrics.extra_{index}": 1.0 for index in range(8)},
        )
        for cell in range(cells)
        for seed in range(seeds)
    ]


@pytest.mark.slow
def test_a_hundred_thousand_rows_are_summarised_in_seconds(pace: float) -> None:
    """CPU seconds, so that a busy machine does not matter; about 1 on a core of 2024."""
    import time

    rows = many_rows(1000, 100)
    began = time.process_time()
    summary = summarise(rows)
    assert time.process_time() - began < 8 * pace
    assert sum(len(curve.points) for curve in summary.panels[0].curves) == 1000


def test_importing_the_summary_loads_nothing_heavy() -> None:
    program = (
        "import sys, tasks.frontier; print([m for m in ('scipy', 'pandas', 'moocore', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_size_is_shown_only_of_a_memory_that_has_it() -> None:
    memories = [("novelty", 64), ("novelty", 256), ("pointer", 64), ("append", 64)]
    rows = [
        row({"name": "triple_retrieval", "memory": memory, "slots": slots, "tau": 0.01}, 0, 0.9, slots)
        for memory, slots in memories
    ]
    rows += [row({"name": "dp_cache", "tau": tau}, 0, 0.9, 64) for tau in (0.2, 0.4)]
    shown = {name: [point.settings for point in found.points] for name, found in curves(summarise(rows)).items()}
    assert shown == {
        "triple_retrieval novelty": [{"slots": 64}, {"slots": 256}],
        "triple_retrieval pointer": [{"slots": 64}],
        "triple_retrieval append": [{}],
        "dp_cache": [{"tau": 0.2}, {"tau": 0.4}],
    }


def test_a_single_budget_is_shown_where_another_curve_varies_it() -> None:
    """Of three memories, one has an axis on `budget`, one a fixed budget, one none."""
    mechanisms = [("recency", 4), ("recency", 8), ("tova", 8), ("full_attention", None)]
    rows = [
        {
            "state": "done",
            "seed": 0,
            "episodes": 1,
            "workload.name": "associative_recall",
            "mechanism.name": name,
            **({} if budget is None else {"mechanism.budget": budget}),
            "metrics.recall": 0.5,
            "metrics.slots": 4,
            "metrics.bytes": 16,
        }
        for name, budget in mechanisms
    ]
    [panel] = summarise(rows).panels
    shown = {curve.mechanism: [point.settings for point in curve.points] for curve in panel.curves}
    assert shown == {"recency": [{"budget": 4}, {"budget": 8}], "tova": [{"budget": 8}], "full_attention": [{}]}
