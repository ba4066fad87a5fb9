"""Slots against ln N in reports of sweeps over Chinese restaurant processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tasks.growth import log_slopes
from tasks.growth_sections import expected_items
from tasks.kind import KINDS
from tasks.summary import Section, Summary
from tests.tasks.test_kinds import rows_of

PROCESS = {"name": "chinese_restaurant", "alpha": 2.0, "events": 2000, "classes": 4, "dim": 16}
"""Small, and easy to tell apart: a memory that merges what is alike has a slot for each item."""

MECHANISMS: list[dict[str, Any]] = [{"name": "dp_cache", "similarity": 0.6}, {"name": "recency", "budget": 5}]


def growth(summary: Summary) -> dict[str, dict[str, Any]]:
    part = one_section(summary)
    assert part.table is not None
    return {str(row[0]): dict(zip(part.table.columns, row, strict=True)) for row in part.table.rows}


def one_section(summary: Summary) -> Section:
    (part,) = [one for one in summary.sections if one.name.startswith("growth")]
    return part


def test_expected_items_are_the_sum_of_the_chances_of_new_ones() -> None:
    wanted = [sum(3.0 / (3.0 + i) for i in range(n)) for n in (1, 10, 500)]
    assert expected_items(3.0, np.array([1.0, 10.0, 500.0])).tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("kind", ["adaptive", "frontier", "seed_study"])
def test_items_and_slots_grow_as_alpha_ln_n_along_one_stream(kind: str) -> None:
    rows = rows_of(kind, [{**PROCESS, "checkpoints": 6}], MECHANISMS, seeds=8, episodes=6)
    summary = KINDS.implementation(kind).summarise(rows)
    lines = growth(summary)
    items = lines["distinct items"]
    (cache,) = [line for label, line in lines.items() if label.startswith("dp_cache")]
    (bounded,) = [line for label, line in lines.items() if label.startswith("recency")]
    runs = np.array([row["series.phase_items"] for row in rows if row["mechanism.name"] == "recency"])
    tokens = np.array(rows[0]["series.phase_tokens"])
    assert items["slope"].mean == pytest.approx(log_slopes(tokens, runs).mean())
    assert items["slope"].method.startswith("BCa bootstrap over 8 seeds")
    assert items["slope"].low < items["expected"] < items["slope"].high
    assert items["expected"] == pytest.approx(2.0, rel=0.01)
    assert cache["slope"].mean == pytest.approx(items["slope"].mean, abs=0.3)
    assert (bounded["slope"].mean, bounded["runs"], bounded["tokens"]) == (0.0, 8, "100 to 2,000")
    (chart,) = one_section(summary).charts
    assert chart.lines[0].label == "distinct items"
    assert chart.lines[-1].label == "expected items"
    assert next(line.fit for line in chart.lines if line.label.startswith("recency")) == (5.0,) * len(tokens)
    assert chart.log_x


def test_streams_of_several_lengths_are_taken_before_checkpoints() -> None:
    trees = [{**PROCESS, "events": events} for events in (200, 400, 800)]
    lines = growth(KINDS.implementation("frontier").summarise(rows_of("frontier", trees, MECHANISMS, 3, 2)))
    assert lines["distinct items"]["tokens"] == "200 to 800"
    assert lines["distinct items"]["slope"].n == 3


def test_costs_of_several_lengths_show_growth_too() -> None:
    trees = [{**PROCESS, "events": events} for events in (100, 200, 400)]
    lines = growth(KINDS.implementation("cost_scaling").summarise(rows_of("cost_scaling", trees, MECHANISMS, 2, 1)))
    assert lines["distinct items"]["slope"].mean > 0


def test_where_every_item_is_asked_for_the_demand_is_drawn_once() -> None:
    rows = rows_of("adaptive", [{**PROCESS, "events": 300}], MECHANISMS, 2, 1)
    phases = next(one for one in KINDS.implementation("adaptive").summarise(rows).sections if one.name == "phases-1")
    assert [line.label for line in phases.charts[0].lines][2:] == ["distinct items so far"]


def test_each_process_has_a_section_of_its_own() -> None:
    trees = [{**PROCESS, "alpha": alpha} for alpha in (1.0, 4.0)]
    summary = KINDS.implementation("adaptive").summarise(rows_of("adaptive", trees, MECHANISMS, 2, 1))
    titles = [one.title for one in summary.sections if one.name.startswith("growth")]
    assert titles == ["Growth: alpha 1", "Growth: alpha 4"]


def test_one_checkpoint_gives_no_growth() -> None:
    summary = KINDS.implementation("adaptive").summarise(
        rows_of("adaptive", [{**PROCESS, "checkpoints": 1, "events": 100}], MECHANISMS, 2, 1)
    )
    assert not [one for one in summary.sections if one.name.startswith("growth")]
