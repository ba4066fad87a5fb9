"""Names for cells, and means over the seeds of a cell: what the sections of every job type are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from models.stream import Floats
from tasks.cells import Cell, CurveName, group_cells, name_curves, panels
from tasks.search import Direction
from tasks.sequential import SeedsUntil, metric_interval
from tasks.series import steps_name
from tasks.statistics import mean_intervals
from tasks.summary import Interval, Line

SHARE = (0.0, 1.0)
ANY = (-np.inf, np.inf)
POSITIVE = (0.0, np.inf)
"""Bounds of a metric: of a share, of any number, of a cost."""

MOST_LINES = 12
"""More lines than these in one chart cannot be told apart."""


@dataclass(frozen=True)
class NamedCell:
    """A cell, the title of its workload and the label that tells it from the others, such as `h2o budget 64`.

    until: the rule that added its seeds, which then tells the intervals of its metric
    """

    cell: Cell
    workload: str
    label: str
    until: SeedsUntil | None = None

    @property
    def done(self) -> dict[int, dict[str, Any]]:
        """The rows of finished trials by seed."""
        return {seed: dict(row) for seed, row in sorted(self.cell.rows.items()) if row.get("state") == "done"}

    def values(self, metric: str) -> dict[int, float]:
        """The metric of each seed that has it."""
        found = {seed: row.get(f"metrics.{metric}") for seed, row in self.done.items()}
        return {seed: float(value) for seed, value in found.items() if value is not None}

    def mean(self, metric: str, bounds: tuple[float, float] = ANY) -> Interval | None:
        """The metric's mean over seeds with its interval; None where no seed has it."""
        values = np.array(list(self.values(metric).values()), dtype=np.float64)
        return metric_interval(self.until, metric, values, bounds=bounds) if len(values) else None

    def average(self, metric: str) -> float:
        """The metric's mean over seeds; not a number where no seed has it."""
        return float(np.mean(list(self.values(metric).values()) or [np.nan]))

    def _rows_with(self, name: str) -> list[dict[str, Any]]:
        return [row for row in self.done.values() if row.get(f"series.{name}")]

    def series(self, name: str) -> Floats | None:
        """The series [S, T] of the seeds that have it, cut to the shortest; None where no seed has it."""
        rows = [row[f"series.{name}"] for row in self._rows_with(name)]
        if not rows:
            return None
        length = min(len(row) for row in rows)
        return _numbers([row[:length] for row in rows])

    def steps(self, name: str) -> tuple[float, ...] | None:
        """Steps of the training at which all seeds noted the series; None where one of them does not tell them."""
        paced = [self._paced(row, name) for row in self._rows_with(name)]
        common = set.intersection(*map(set, paced)) if paced else set[float]()
        return tuple(sorted(common)) or None

    @staticmethod
    def _paced(row: dict[str, Any], name: str) -> dict[float, float | None]:
        """A seed's series by step; empty where it does not tell the steps."""
        steps, values = row.get(f"series.{steps_name(name)}") or (), row[f"series.{name}"]
        return dict(zip(steps, values, strict=True)) if len(steps) == len(values) else {}

    def line(self, name: str, bounds: tuple[float, float] = ANY) -> Line | None:
        """The series' means over seeds, with intervals, against its steps, or against 1, 2, ... where none are told."""
        series, steps = self.series(name), self.steps(name)
        if series is None:
            return None
        if steps is not None:
            paced = (self._paced(row, name) for row in self._rows_with(name))
            series = _numbers([[values[step] for step in steps] for values in paced])
        x = steps or range(1, series.shape[1] + 1)
        points = [(step, one) for step, one in zip(x, mean_intervals(series, bounds=bounds), strict=True) if one]
        return Line(
            label=self.label,
            x=tuple(float(step) for step, _ in points),
            y=tuple(one.mean for _, one in points),
            low=tuple(one.low for _, one in points),
            high=tuple(one.high for _, one in points),
        )


def _numbers(rows: Sequence[Sequence[float | None]]) -> Floats:
    return np.array([[np.nan if value is None else value for value in row] for row in rows], dtype=np.float64)


def named_cells(rows: Sequence[Any], until: SeedsUntil | None = None) -> list[NamedCell]:
    """Every cell of `rows` in order of appearance."""
    return name_cells(group_cells(rows), until)


def name_cells(cells: Sequence[Cell], until: SeedsUntil | None = None) -> list[NamedCell]:
    """Each of `cells` in order, with what tells it from the others."""
    curves = {id(cell): curve for cell, curve in zip(cells, name_curves(cells), strict=True)}
    titles = {id(cell): title for title, members in panels(cells) for cell in members}
    named = []
    for cell in cells:
        curve = curves[id(cell)]
        settings = [f"{key} {_number(cell.mechanism[key])}" for key in curve.settings if key in cell.mechanism]
        if "similarity" in curve.settings:  # one threshold under two names
            settings = [text for text in settings if not text.startswith("tau ")]
        named.append(NamedCell(cell, titles[id(cell)], " ".join([curve.label, *settings]), until))
    return named


def by_workload(rows: Sequence[Any], until: SeedsUntil | None = None) -> list[tuple[int, str, list[NamedCell]]]:
    """The cells of each workload in order of appearance, with a number from 1 and the workload's title."""
    groups = groupby(named_cells(rows, until), key=lambda cell: cell.workload)
    return [(number, title, list(cells)) for number, (title, cells) in enumerate(groups, start=1)]


def legible(cells: Sequence[NamedCell]) -> list[NamedCell]:
    """The cells that one chart can show: all, or where they are many each mechanism's of best recall."""
    if len(cells) <= MOST_LINES:
        return list(cells)
    best: dict[str, NamedCell] = {}
    for cell in cells:
        recall, name = cell.mean("recall"), str(cell.cell.mechanism["name"])
        leader = best[name].mean("recall") if name in best else None
        if recall is not None and (leader is None or recall.mean > leader.mean):
            best[name] = cell
    return list(best.values() or cells)[:MOST_LINES]


def lines_by_size(
    cells: Sequence[NamedCell],
    size: Callable[[NamedCell], float],
    metric: str,
    bounds: tuple[float, float],
    better: Direction,
    beside: Sequence[Cell],
    most: int = MOST_LINES,
) -> list[Line]:
    """A line for each curve of `cells`, which come by rising `size`: the metric against it.

    Of many curves there are the `most` that are best. What has no size has no place on its axis. Curves have the names
    that tell them apart `beside` all of these.
    """
    names = {id(cell): name for cell, name in zip(beside, name_curves(beside), strict=True)}
    curves: dict[CurveName, list[NamedCell]] = {}
    for cell in cells:
        if size(cell) > 0.0:
            curves.setdefault(names[id(cell.cell)], []).append(cell)
    sign = 1.0 if better == "minimize" else -1.0
    best = sorted(curves, key=lambda name: min(sign * cell.average(metric) for cell in curves[name]))[:most]
    lines = []
    for name in [name for name in curves if name in best]:
        means = [interval for cell in curves[name] if (interval := cell.mean(metric, bounds)) is not None]
        lines.append(
            Line(
                name.label,
                tuple(size(cell) for cell in curves[name]),
                tuple(mean.mean for mean in means),
                tuple(mean.low for mean in means),
                tuple(mean.high for mean in means),
                joined=len(means) > 1,
            )
        )
    return lines


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
