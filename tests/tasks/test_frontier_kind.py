"""What a frontier says beside its points: which frontiers lie above which, and where each has its knee."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tasks.kind import KINDS
from tasks.summary import Section, Summary


def rows_of(points: dict[str, list[tuple[int, float]]], seeds: int = 8) -> list[dict[str, Any]]:
    """Trials of budgets with recalls that scatter by 0.003 around what is given; seed 0 is hard for all."""
    rng = np.random.default_rng(0)
    hardness = rng.normal(0, 0.05, seeds)
    return [
        {
            "state": "done",
            "seed": seed,
            "episodes": 1,
            "workload.name": "associative_recall",
            "mechanism.name": name,
            "mechanism.budget": budget,
            "metrics.recall": recall + hardness[seed] + rng.normal(0, 0.003),
            "metrics.chance": 0.0625,
            "metrics.tokens": 256,
            "metrics.slots": budget,
            "metrics.bytes": 100 * budget,
        }
        for name, cells in points.items()
        for budget, recall in cells
        for seed in range(seeds)
    ]


POINTS = {
    "item_lru": [(16, 0.3), (32, 0.6), (64, 0.85), (128, 0.9)],
    "h2o": [(16, 0.25), (32, 0.5), (64, 0.8), (128, 0.85)],
    "recency": [(32, 0.65), (64, 0.7)],
}


def summary_of(rows: list[dict[str, Any]]) -> Summary:
    return KINDS.implementation("frontier").summarise(rows)


def lines(summary: Summary, name: str) -> dict[Any, dict[str, Any]]:
    """Rows of a section's table by their first two cells."""
    part: Section = next(one for one in summary.sections if one.name == name)
    assert part.table is not None
    return {line[:2]: dict(zip(part.table.columns, line, strict=True)) for line in part.table.rows}


@pytest.mark.parametrize(("axis", "unit"), [("slots", 1), ("bytes", 100)])
def test_every_pair_is_compared_over_a_stated_range(axis: str, unit: int) -> None:
    table = lines(summary_of(rows_of(POINTS)), f"dominance-{axis}-1")
    assert {pair: line["verdict"] for pair, line in table.items()} == {
        ("h2o", "item_lru"): "dominated",
        ("recency", "item_lru"): "crosses",
        ("recency", "h2o"): "crosses",
    }
    crossing = table["recency", "item_lru"]
    assert (crossing["from"], crossing["to"], crossing["sizes"]) == (32 * unit, 128 * unit, 3)
    assert crossing["least difference"].mean == pytest.approx(-0.2, abs=0.01)
    assert crossing["greatest difference"].mean == pytest.approx(0.05, abs=0.01)
    assert crossing["greatest difference"].low > 0, "paired: what is hard about a seed cancels"


def test_many_frontiers_are_compared_with_what_tells_something() -> None:
    """Full attention, first in the spec, is of one size: alone with it, nothing would be compared over a range."""
    memories = ("h2o", "tova", "recency", "streaming_llm", "item_lru", "item_lfu")
    points = {
        "full_attention": [(256, 0.99)],
        **{name: [(16, 0.2 + 0.02 * n), (64, 0.7 + 0.02 * n)] for n, name in enumerate(memories)},
        "superposition": [(32, 0.3)],
        "ridge_memory": [(32, 0.95)],
        "dp_cache": [(20, 0.4), (64, 0.9)],
        "optimal": [(16, 0.5), (64, 0.97)],
    }
    summary = summary_of(rows_of(points))
    table = lines(summary, "dominance-slots-1")
    best = "best state of fixed size"
    contenders = {"full_attention", *memories}
    assert set(table) == {
        *((name, "optimal") for name in {*contenders, "superposition", "ridge_memory", "dp_cache", best}),
        *((name, "dp_cache") for name in {*contenders, "superposition", "ridge_memory", best}),
        *((name, best) for name in contenders),
    }
    assert table["tova", "dp_cache"]["verdict"] == "dominated"
    assert (table["tova", "dp_cache"]["from"], table["tova", "dp_cache"]["sizes"]) == (20, 2)
    assert table[best, "optimal"]["verdict"] == "crosses"
    assert table["h2o", best]["greatest difference"].mean == pytest.approx(0.7 - 0.95, abs=0.01)
    [section] = [one for one in summary.sections if one.name == "dominance-slots-1"]
    assert "Of the 55 pairs that 11 frontiers make, that leaves out 36." in section.text[1]
    assert "one item a slot" in section.text[1]


def test_knees_stand_at_measured_sizes() -> None:
    table = lines(summary_of(rows_of(POINTS)), "knees-1")
    assert [(pair[0], pair[1]) for pair in table] == [("item_lru", 64.0), ("h2o", 64.0)]
    assert table["item_lru", 64.0]["recall"].n == 8


def test_one_seed_and_no_common_seed_say_so() -> None:
    table = lines(summary_of(rows_of(POINTS, seeds=1)), "dominance-slots-1")
    assert {line["verdict"] for line in table.values()} == {"undefined: one seed"}
    rows = rows_of(POINTS, seeds=2)
    for row in rows:
        if (row["mechanism.name"] == "recency") == (row["seed"] == 0):
            row["state"] = "failed"
    table = lines(summary_of(rows), "dominance-slots-1")
    assert table["recency", "h2o"]["verdict"] == "no common seed"
    assert table["h2o", "item_lru"]["verdict"] == "undefined: one seed"


def test_one_curve_alone_is_compared_with_nothing() -> None:
    summary = summary_of(rows_of({"recency": [(32, 0.65), (64, 0.7)]}))
    assert summary.sections == ()
