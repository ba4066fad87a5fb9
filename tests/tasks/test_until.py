"""Reports of sweeps whose seeds were added until an interval was narrow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tasks.by_device import summarise
from tasks.kind import KINDS, Asked
from tasks.sequential import FixedWidth, SeedsUntil
from tasks.summary import Interval, Section, Summary

RULE = FixedWidth(half_width=0.01, most=40, first=5)
UNTIL = SeedsUntil("recall", RULE)


def rows_of(cells: dict[str, tuple[float, int]], episodes: int = 1) -> list[dict[str, Any]]:
    """Name -> (deviation, seeds): recalls around 0.5, out of order as a store may give them."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "state": "done",
            "device": "cpu",
            "seed": seed,
            "episodes": episodes,
            "workload.name": "associative_recall",
            "mechanism.name": name,
            "metrics.recall": 0.5 + sd * float(rng.normal()),
            "metrics.chance": 0.0625,
            "metrics.tokens": 256,
            "metrics.slots": 64 + seed,
            "metrics.bytes": 6400,
        }
        for name, (sd, seeds) in cells.items()
        for seed in range(seeds)
    ]
    return [rows[index] for index in rng.permutation(len(rows))]


CELLS = {"h2o": (0.005, 12), "item_lru": (0.05, 40)}


def expected(rows: list[dict[str, Any]], name: str) -> tuple[float, float]:
    """Mean ± t s / √n, s and t of the first five seeds."""
    values = [row["metrics.recall"] for row in sorted(rows, key=lambda r: r["seed"]) if row["mechanism.name"] == name]
    return float(np.mean(values)), float(stats.t.ppf(0.975, 4) * np.std(values[:5], ddof=1) / math.sqrt(len(values)))


def intervals(summary: Summary) -> list[Interval]:
    """Of recall: those of points, and those in columns named so."""
    found = [point.metrics["recall"] for panel in summary.panels for curve in panel.curves for point in curve.points]
    for part in summary.sections:
        grid = part.table
        places = [place for place, name in enumerate(grid.columns) if name == "recall"] if grid else []
        found += [
            row[place] for place in places for row in (grid.rows if grid else ()) if isinstance(row[place], Interval)
        ]
    return found


@pytest.mark.parametrize("kind", ["frontier", "seed_study", "adaptive", "gate_ablation"])
def test_every_interval_of_the_metric_is_the_rules_in_every_kind(kind: str) -> None:
    rows = rows_of(CELLS)
    summary = summarise(KINDS.implementation(kind), rows, Asked(until=UNTIL))
    found = intervals(summary)
    assert len(found) >= 4
    wanted = {round(mean, 9): half for mean, half in (expected(rows, name) for name in CELLS)}
    for one in found:
        assert one.method.startswith("Stein's two stages over")
        assert one.low is not None
        assert one.mean - one.low == pytest.approx(wanted[round(one.mean, 9)])
    curves = {curve.label: curve for curve in summary.panels[0].curves}
    assert curves["h2o"].points[0].metrics["slots"].method == "Student t over 12 seeds"


@pytest.mark.parametrize("kind", ["frontier", "seed_study", "adaptive", "gate_ablation"])
def test_without_a_rule_nothing_changes(kind: str) -> None:
    summary = summarise(KINDS.implementation(kind), rows_of(CELLS))
    assert {one.method for one in intervals(summary)} == {"Student t over 12 seeds", "Student t over 40 seeds"}
    assert all(part.name != "until" for part in summary.sections)


def until_section(summary: Summary) -> tuple[Section, dict[str, dict[str, Any]]]:
    part = summary.sections[0]
    assert part.name == "until"
    assert part.table is not None
    lines = [dict(zip(part.table.columns, row, strict=True)) for row in part.table.rows]
    return part, {line["mechanism"]: line for line in lines}


def test_the_rule_the_seeds_and_what_it_did_not_reach_are_told() -> None:
    part, lines = until_section(summarise(KINDS.implementation("frontier"), rows_of(CELLS), Asked(until=UNTIL)))
    assert "within ± 0.01 with 95% confidence, at most 40: the deviation of the first 5" in part.text[0]
    assert "Cells have 12 to 40 seeds." in part.text[0]
    assert part.text[1] == "Not known so well: item_lru."
    assert {name: (line["seeds"], line["narrow enough"]) for name, line in lines.items()} == {
        "h2o": (12, "yes"),
        "item_lru": (40, "no"),
    }
    assert lines["item_lru"]["recall"].method.endswith("± 0.01 not reached")


def test_before_the_first_stage_is_finished_intervals_are_plain() -> None:
    rows = rows_of({"h2o": (0.005, 3)})
    part, lines = until_section(summarise(KINDS.implementation("frontier"), rows, Asked(until=UNTIL)))
    assert lines["h2o"]["narrow enough"] == "first stage not finished"
    assert lines["h2o"]["recall"].method == "Student t over 3 seeds"
    assert len(part.text) == 1


def test_shares_without_spread_are_known_by_their_episodes() -> None:
    """All of 6 · 100 outcomes alike: within 1 - 0.025^(1/600) = 0.0061; of 6 · 10: within 0.0596."""
    for episodes, told in ((100, "yes"), (10, "no")):
        rows = [{**row, "metrics.recall": 1.0} for row in rows_of({"h2o": (0.0, 6)}, episodes)]
        _, lines = until_section(summarise(KINDS.implementation("frontier"), rows, Asked(until=UNTIL)))
        assert lines["h2o"]["narrow enough"] == told
        assert lines["h2o"]["recall"].method.startswith(f"exact binomial over {6 * episodes} episodes")
