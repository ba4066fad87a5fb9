"""Gate ablations: what gates learn that decide which tokens a memory keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from tasks.cells import Row
from tasks.kind import NOTHING_ASKED, Asked, Kind, KindConfig, kind
from tasks.labels import SHARE, NamedCell, by_workload
from tasks.summary import Chart, Grid, Section, Summary, Value

GATE_METRICS = {
    "kept_hard": "tokens with g > 0.5",
    "gate_a": "a",
    "gate_b": "b",
    "plateau_low": "plateau, low end",
    "plateau_high": "plateau, high end",
}
"""Metrics of gates, and their headings."""


class GateAblationConfig(KindConfig):
    """Learned gates beside the rule they should find: recall, slots, what a hard gate keeps, and training curves."""

    name: Literal["gate_ablation"] = "gate_ablation"


@kind(GateAblationConfig)
class GateAblation(Kind):
    """A gate's seeds train together. Keeping the top M by g tests only the order of g, g > 0.5 tests its scale too."""

    starter = """\
name: my-gates             # names the sweep, here and in MLflow
kind: gate_ablation        # what learned gates keep, beside the rule they should find

workload: {name: associative_recall, items: 64, repeats: 4, classes: 16, dim: 32, noise: 0.3}

mechanisms:
  - {name: dp_cache, similarity: 0.6}                       # the rule
  - {name: novelty_gate, budget: 64}                        # two parameters on the novelty of a token
  - {name: mlp_gate, inputs: embedding, budget: 64}         # a network that sees the token's key alone
  - {name: distilled_gate, budget: 64}                      # a network taught the rule's decisions

seeds: 5
episodes: 50
"""

    @classmethod
    def summarise(cls, rows: Sequence[Row], asked: Asked = NOTHING_ASKED) -> Summary:
        from tasks.frontier import summarise

        sections = tuple(section for group in by_workload(rows, asked.until) for section in _sections(*group))
        return replace(summarise(rows, asked.until), sections=sections)


def _sections(number: int, title: str, cells: Sequence[NamedCell]) -> Iterator[Section]:
    table = Grid(("mechanism", "recall", "slots", *GATE_METRICS.values()), tuple(map(_row, cells)))
    text = (
        "b is the novelty at which a gate is half open. On the plateau, between the largest novelty of a repeat and "
        "the smallest of a first occurrence, any b separates the two; recall of the top M by g tests only their order."
    )
    yield Section(f"gates-{number}", f"Gates: {title}", (text,), table)
    names = dict.fromkeys(
        column.removeprefix("series.")
        for cell in cells
        for row in cell.done.values()
        for column, values in row.items()
        if column.startswith("series.") and not column.startswith("series.phase_") and values
    )
    charts = [
        Chart("point of the training", name.replace("_", " "), lines)
        for name in names
        if (lines := tuple(line for cell in cells if (line := cell.line(name))))
    ]
    if charts:
        text = "Means over seeds in the course of the training, with 95% intervals."
        yield Section(f"training-{number}", f"Training: {title}", (text,), None, tuple(charts))


def _row(cell: NamedCell) -> tuple[Value, ...]:
    return cell.label, cell.mean("recall", SHARE), cell.mean("slots"), *(cell.mean(name) for name in GATE_METRICS)
