"""The part of a report that says how far memories are from full attention, by size."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.kinds.frontier import Frontier
from tasks.summary import Interval


def row(seed: int, workload: str, mechanism: dict[str, Any], **metrics: float) -> dict[str, Any]:
    fields = {f"mechanism.{name}": value for name, value in mechanism.items()}
    measured = {f"metrics.{name}": value for name, value in metrics.items()}
    return {"state": "done", "seed": seed, "episodes": 1, "workload.name": workload, **fields, **measured}


def test_errors_are_told_by_size_with_what_recall_means() -> None:
    cells = [
        ({"name": "full_attention"}, {"slots": 40.0, "bytes": 900.0, "attention_error": 0.0, "top1_agreement": 1.0}),
        (
            {"name": "recency", "budget": 4},
            {"slots": 4.0, "bytes": 90.0, "attention_error": 0.5, "top1_agreement": 0.5},
        ),
        (
            {"name": "recency", "budget": 8},
            {"slots": 8.0, "bytes": 180.0, "attention_error": 0.6, "top1_agreement": 0.5},
        ),
        ({"name": "delta_rule"}, {"slots": 8.0, "bytes": 160.0, "attention_error": 0.4}),
        ({"name": "product_key_memory"}, {"slots": 9.0, "bytes": 100.0}),
    ]
    rows = [row(seed, "npz_stream", cell, recall=0.6, chance=0.1, **sizes) for seed in (0, 1) for cell, sizes in cells]
    rows += [row(seed, "zipf_recall", {"name": "recency"}, recall=1.0, slots=4.0, bytes=90.0) for seed in (0, 1)]
    [section] = [one for one in Frontier.summarise(rows).sections if one.name.startswith("attention")]
    assert section.title == "Attention: npz_stream"
    assert any("recall is another thing here" in text for text in section.text)
    assert section.table is not None
    said = [(line[0], line[2], line[4] is None, line[6]) for line in section.table.rows]
    assert said == [
        ("recency budget 4", 90.0, False, "least error"),
        ("delta_rule", 160.0, True, "least error"),
        ("recency budget 8", 180.0, False, None),
        ("full_attention", 900.0, False, "least error"),
    ]
    error = section.table.rows[1][3]
    assert isinstance(error, Interval)
    assert error.mean == pytest.approx(0.4)
    [chart] = section.charts
    assert {line.label: line.x for line in chart.lines} == {
        "recency": (90.0, 180.0), "delta_rule": (160.0,), "full_attention": (900.0,),
    }  # fmt: skip
