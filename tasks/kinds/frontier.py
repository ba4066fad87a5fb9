"""Frontiers: recall against measured size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from tasks.attention_sections import attention_sections
from tasks.cells import Cell, Row, group_cells, name_curves, panels
from tasks.dominance import SizedCell, dominance
from tasks.frontier_pairs import choose_pairs
from tasks.growth_sections import growth_sections
from tasks.kind import NOTHING_ASKED, Asked, Kind, KindConfig, kind
from tasks.labels import named_cells
from tasks.sequential import SeedsUntil, metric_interval
from tasks.staircase import knee
from tasks.summary import SIZE_AXES, Grid, Section, Summary, Value


class FrontierConfig(KindConfig):
    """Recall against measured size: which memory recalls most at or under each number of slots and bytes."""

    name: Literal["frontier"] = "frontier"


@kind(FrontierConfig)
class Frontier(Kind):
    """Every cell is a point; the best of a mechanism make its frontier."""

    starter = """\
name: my-frontier          # names the sweep, here and in MLflow
kind: frontier             # recall against measured size, with intervals over seeds

# What makes the streams of (key, value) tokens. `slotsweep list workloads` shows all workloads and their fields.
workload:
  name: associative_recall
  items: 64                # distinct items
  repeats: 4               # tokens of each item
  classes: 16
  dim: 32
  noise: 0.3               # expected length of the noise on a key

# The memories to compare. `slotsweep list mechanisms` shows all mechanisms and their fields.
# Any field of a workload or mechanism may be an axis; the sweep runs the product of all axes:
#   {values: [16, 64, 256]}      these values
#   {linspace: [0.1, 0.8, 8]}    8 values from 0.1 to 0.8, evenly spaced, both ends included
#   {logspace: [16, 256, 5]}     5 values from 16 to 256 in equal ratios, both ends included (16, 32, 64, 128, 256)
#   {range: [0, 100, 10]}        0, 10, ..., 90: the stop is not included
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, tau: {linspace: [0.2, 0.8, 4]}}  # novelty threshold; `similarity: 0.6` may stand for `tau: 0.4`
  - {name: h2o, budget: {values: [16, 32, 64, 128]}}
  - {name: recency, budget: {values: [16, 32, 64, 128]}}

seeds: 10                  # seeds 0 to 9; or {count: 10, base: 7}, or a list. Every mechanism sees the same streams
episodes: 50               # streams a trial averages over
device: any                # cpu | cuda | mps | any, or a list: run on each and compare
# dtype: float32           # number format in which keys are stored: float32 | float16 | bfloat16 | float64
# plugins: [my_memory.py]  # modules that define mechanisms or workloads of your own
"""

    @classmethod
    def summarise(cls, rows: Sequence[Row], asked: Asked = NOTHING_ASKED) -> Summary:
        from tasks.frontier import summarise

        attention, growth = attention_sections(rows), growth_sections(named_cells(rows))
        sections = (*attention, *_sections(rows, asked.until), *growth)
        return replace(summarise(rows, asked.until), sections=sections)


def _sections(rows: Sequence[Row], until: SeedsUntil | None) -> Iterator[Section]:
    """For each workload, which frontiers lie above which, and where each has its knee."""
    cells = group_cells(rows)
    names = name_curves(cells)
    label_of = {id(cell): name.label for cell, name in zip(cells, names, strict=True)}
    mechanisms = {name.label: name.mechanism for name in names}
    for number, (title, members) in enumerate(panels(cells), start=1):
        by_curve: dict[str, list[Cell]] = {}
        for cell in members:
            by_curve.setdefault(label_of[id(cell)], []).append(cell)
        for axis in SIZE_AXES:
            curves = {label: sized for label, group in by_curve.items() if (sized := _sized(group, axis))}
            if len(curves) > 1:
                yield _dominance(
                    f"dominance-{axis}-{number}", f"Frontiers compared, {axis}: {title}", curves, mechanisms
                )
        slots = {label: _sized(group, "slots") for label, group in by_curve.items()}
        if knees := [row for label, sized in slots.items() if (row := _knee(label, sized, until))]:
            text = (
                "The knee of a frontier: the cell after which more slots buy less, farthest above the line between the "
                "frontier's ends over log2 slots (Das 1999). Frontiers without one are left out."
            )
            grid = Grid(("mechanism", "slots", "recall"), tuple(knees))
            yield Section(f"knees-{number}", f"Knees: {title}", (text,), grid)


def _sized(cells: Sequence[Cell], axis: str) -> list[SizedCell]:
    """The cells that have finished trials, with the size that these measured."""
    found = []
    for cell in cells:
        done = {seed: row for seed, row in cell.rows.items() if row.get("state") == "done"}
        sizes = [float(size) for row in done.values() if (size := row.get(f"metrics.{axis}")) is not None]
        recalls = {seed: float(r) for seed, row in done.items() if (r := row.get("metrics.recall")) is not None}
        if sizes and recalls:
            found.append(SizedCell(float(np.mean(sizes)), recalls))
    return found


def _dominance(
    name: str, title: str, curves: Mapping[str, Sequence[SizedCell]], mechanisms: Mapping[str, str]
) -> Section:
    chosen = choose_pairs(curves, mechanisms)
    text = (
        "Best recall of the first mechanism at or under a size, less that of the second, at every size of the stated "
        "range where it may change, paired by seed. The first dominates if it is nowhere below and somewhere above, "
        "by paired t-tests at 5% that Holm's method adjusts for the number of sizes. Intervals hold size by size."
    )
    columns = ("mechanism", "less", "from", "to", "sizes", "least difference", "greatest difference", "verdict")
    grid = Grid(columns, tuple(_compared(chosen.frontiers, *pair) for pair in chosen.pairs))
    return Section(name, title, (text, chosen.words) if chosen.words else (text,), grid)


def _compared(curves: Mapping[str, Sequence[SizedCell]], over: str, under: str) -> tuple[Value, ...]:
    """The range begins where both have a cell and ends with the largest, beyond which nothing changes."""
    sides = curves[over], curves[under]
    low = max(min(cell.size for cell in side) for side in sides)
    high = max(cell.size for side in sides for cell in side)
    try:
        found = dominance(*sides, low, high)
    except ValueError:
        return over, under, low, high, None, None, None, "no common seed"
    by_mean = sorted(found.differences, key=lambda one: one.mean)
    return over, under, low, high, len(found.sizes), by_mean[0], by_mean[-1], found.verdict


def _knee(label: str, cells: Sequence[SizedCell], until: SeedsUntil | None) -> tuple[Value, ...] | None:
    recalls = [float(np.mean(list(cell.recalls.values()))) for cell in cells]
    place = knee([cell.size for cell in cells], recalls)
    if place is None:
        return None
    values = np.array([recall for _, recall in sorted(cells[place].recalls.items())])
    return label, cells[place].size, metric_interval(until, "recall", values, bounds=(0.0, 1.0))
