"""Recall against state: every contender has its place in one chart."""

from __future__ import annotations

from typing import Any

from tasks.cells import Cell
from tasks.labels import name_cells
from tasks.state_sections import state_section


def cell(name: str, memory: str, slots: int, recall: float, **kept: float) -> Cell:
    row: dict[str, Any] = {"state": "done", "metrics.recall": recall}
    row |= {f"metrics.{metric}": value for metric, value in kept.items()}
    return Cell({"name": "mqar"}, {"name": name, "memory": memory, "slots": slots}, {0: row})


def test_a_chart_has_a_line_for_each_backbone_with_each_memory_and_marks_who_leads() -> None:
    cells = [
        cell(backbone, memory, slots, 0.1 * number + 0.001 * slots, bytes_state=1000.0 * (number + 1) + slots)
        for number, backbone in enumerate(("a", "b", "c", "d", "e"))
        for memory in ("append", "novelty", "pointer")
        for slots in (8, 64)
    ]
    cells.append(
        Cell({"name": "mqar"}, {"name": "item_lru", "budget": 4}, {0: cell("", "", 0, 0.9, bytes=64.0).rows[0]})
    )
    [section] = state_section(1, "mqar", name_cells(cells))
    [chart] = section.charts
    assert len(chart.lines) == 3 * 5 + 1
    assert all(len(line.x) == (1 if line.label == "item_lru" else 2) for line in chart.lines)
    assert section.table is not None
    assert [row[0] for row in section.table.rows if row[4]] == ["item_lru"]


def test_without_a_models_state_there_is_no_section() -> None:
    assert not list(state_section(1, "mqar", name_cells([cell("knn", "", 4, 0.5, bytes=64.0)])))
