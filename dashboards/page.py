"""The report page as plain data for its template: every text is made here, every tag is written there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboards.drawing import View, draw
from dashboards.scale import size_writer, with_unit
from dashboards.steps import best_within, checkpoints, measured, metric_of
from dashboards.style import Style
from dashboards.tables import frontier_axes, metric_names, rows_of
from dashboards.text import MISSING, bounds, byte_count, count, estimate, fraction, settings, value, writer
from dashboards.words import findings, look_notes, scale_notes
from tasks.summary import Curve, Interval, Panel, Point, Summary

SHOWN_FIRST = ("recall", "recall_all", "slots", "bytes")
"""Metrics that always have a column, even where every cell has the same value."""


@dataclass(frozen=True)
class Cell:
    """A table cell.

    detail is what stands below it in small print, mark a letter that names the method of its interval, sort the value
    it sorts by, best whether it is the best of its column.
    """

    text: str
    detail: str = ""
    mark: str = ""
    sort: float | str | None = None
    best: bool = False


@dataclass(frozen=True)
class Row:
    """A table row. `style` is that of the curve it belongs to; `alert` marks a row with failed or missing seeds."""

    cells: tuple[Cell, ...]
    style: Style | None = None
    alert: bool = False


@dataclass(frozen=True)
class Table:
    """Columns as (heading, whether its cells are numbers), and rows."""

    columns: tuple[tuple[str, bool], ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Comparison:
    """A figure and its table of matched sizes, for one size axis and one recall metric."""

    view: View
    matched: Table


@dataclass(frozen=True)
class PanelPage:
    """Everything the page says about one panel. `points` is what hovering tells, by mark key."""

    title: str
    facts: str
    constants: str
    words: str
    comparisons: tuple[Comparison, ...]
    cells: Table
    scores: Table
    scale_notes: tuple[str, ...]
    notes: tuple[str, ...]
    points: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Problem:
    """A cell in which seeds failed or are missing."""

    panel: str
    label: str
    settings: str
    failed: int
    missing: int
    seeds: int


def panel_page(
    panel: Panel, axes: Sequence[str], metrics: Sequence[str], styles: Mapping[str, Style], methods: Mapping[str, str]
) -> PanelPage:
    """Lay out `panel`: figures and matched sizes for every pair of size axis and recall metric, and its tables.

    `methods` maps the letter that marks a method of intervals to its name.
    """
    points = [point for _, point in rows_of(panel)]
    constants = _constants(points)
    return PanelPage(
        title=panel.title,
        facts=", ".join(f"{name} {value(item)}" for name, item in panel.workload.items() if name != "name"),
        constants=", ".join(_constant(name, interval) for name, interval in constants.items()),
        words=findings(panel),
        comparisons=tuple(
            Comparison(draw(panel, axis, metric, styles), _matched(panel, axis, metric, styles))
            for axis in axes
            for metric in metrics
        ),
        cells=_cells(panel, [name for name in metric_names(points) if name not in constants], styles, methods),
        scores=_scores(panel, styles),
        scale_notes=scale_notes(panel),
        notes=look_notes(panel),
        points={
            f"{i}-{j}": _hover(curve, point)
            for i, curve in enumerate(panel.curves)
            for j, point in enumerate(curve.points)
        },
    )


def _constants(points: Sequence[Point]) -> dict[str, Interval]:
    """Metrics with the same value and interval in every cell: said once instead of in a column."""
    constants = {}
    for name in metric_names(points):
        found = {interval for point in points if (interval := metric_of(point, name))}
        ends = {(interval.mean, interval.low, interval.high) for interval in found}
        if len(ends) == 1 and name not in SHOWN_FIRST:
            constants[name] = found.pop()
    return constants


def _constant(name: str, interval: Interval) -> str:
    write = writer(name)
    exact = interval.low == interval.high == interval.mean
    return f"{name} {write(interval.mean) if exact else estimate(interval, write)}"


def _matched(panel: Panel, axis: str, metric: str, styles: Mapping[str, Style]) -> Table:
    """The best recall of each curve at or under sizes that several curves have; the best of each column is marked."""
    sizes = checkpoints(panel, axis, metric)
    write = size_writer(axis)
    lines = [(curve, measured(curve, axis, metric)) for curve in panel.curves]
    best = [[best_within(line, size) for size in sizes] for _, line in lines]
    rules = [row for (curve, _), row in zip(lines, best, strict=True) if curve.role != "bound"]
    tops = [max((entry.recall.mean for row in rules if (entry := row[i])), default=None) for i in range(len(sizes))]
    rows = []
    for (curve, _), found in zip(lines, best, strict=True):
        cells = [Cell(curve.title, sort=curve.label)]
        for entry, top in zip(found, tops, strict=True):
            if entry is None:
                cells.append(Cell(MISSING))
                continue
            detail = f"{bounds(entry.recall, fraction)}\nat {write(entry.size.mean)}"
            mean = entry.recall.mean
            cells.append(Cell(fraction(mean), detail, sort=mean, best=mean == top and curve.role != "bound"))
        rows.append(Row(tuple(cells), styles[curve.label]))
    columns = (("mechanism", False), *((f"≤ {with_unit(axis, write(size))}", True) for size in sizes))
    return Table(columns, tuple(rows))


def _cells(panel: Panel, names: Sequence[str], styles: Mapping[str, Style], methods: Mapping[str, str]) -> Table:
    """Every cell with every metric that varies."""
    letters = {method: letter for letter, method in methods.items()} if len(methods) > 1 else {}
    varied = list(dict.fromkeys(name for _, point in rows_of(panel) for name in point.settings))
    rows = []
    for curve, point in rows_of(panel):
        cells = [Cell(curve.title, sort=curve.label)]
        cells += [_setting(point.settings.get(name)) for name in varied]
        cells += [_number(metric_of(point, name), name, point.done, letters) for name in names]
        short = point.done < point.seeds
        text = f"{point.done} of {point.seeds}" if short else str(point.done)
        cells += [Cell(text, _lacking(point), sort=point.done), Cell(frontier_axes(point), sort=frontier_axes(point))]
        rows.append(Row(tuple(cells), styles[curve.label], alert=short))
    columns = [
        ("mechanism", False),
        *((name, True) for name in (*varied, *names)),
        ("seeds", True),
        ("frontier", False),
    ]
    return Table(tuple(columns), tuple(rows))


def _setting(item: Any) -> Cell:
    if item is None:
        return Cell(MISSING)
    return Cell(value(item), sort=float(item) if isinstance(item, int | float) else str(item))


def _number(interval: Interval | None, name: str, done: int, letters: Mapping[str, str]) -> Cell:
    if interval is None:
        return Cell(MISSING)
    write = writer(name)
    other = f", n = {interval.n}" if interval.n != done else ""
    mark = letters.get(interval.method, "")
    return Cell(write(interval.mean), bounds(interval, write) + other, mark, interval.mean)


def _lacking(point: Point) -> str:
    missing = point.seeds - point.done - point.failed
    parts = [f"{point.failed} failed"] if point.failed else []
    parts += [f"{missing} missing"] if missing > 0 else []
    return ", ".join(parts)


def _scores(panel: Panel, styles: Mapping[str, Style]) -> Table:
    """Hypervolume and area of each curve, on its size axes."""
    rows = []
    for curve in panel.curves:
        numbers = [scores.get(axis) for scores in (curve.hypervolume, curve.area) for axis in panel.axes]
        cells = [Cell(curve.title, sort=curve.label)]
        cells += [
            Cell("undefined", "too few points finished")
            if number is None
            else Cell(fraction(number.mean), bounds(number, fraction), sort=number.mean)
            for number in numbers
        ]
        n = max((number.n for number in numbers if number), default=0)
        rows.append(Row((*cells, Cell(str(n), sort=n)), styles[curve.label]))
    names = [f"{score}, {axis}" for score in ("hypervolume", "area") for axis in panel.axes]
    return Table((("mechanism", False), *((name, True) for name in names), ("n", True)), tuple(rows))


def _hover(curve: Curve, point: Point) -> dict[str, Any]:
    """What a reader sees when pointing at a mark."""
    lines = []
    for name, write in (("recall", fraction), ("recall_all", fraction), ("slots", count), ("bytes", byte_count)):
        if interval := metric_of(point, name):
            lines.append([name, write(interval.mean), bounds(interval, write)])
    seeds = f"n = {point.done}" if point.done == point.seeds else f"n = {point.done} of {point.seeds} seeds"
    return {"label": curve.title, "settings": settings(point.settings), "lines": lines, "seeds": seeds}


def problems(summary: Summary) -> tuple[Problem, ...]:
    """Every cell that lacks seeds, those with failures first."""
    found = [
        Problem(
            panel.title,
            curve.label,
            settings(point.settings),
            point.failed,
            max(point.seeds - point.done - point.failed, 0),
            point.seeds,
        )
        for panel in summary.panels
        for curve, point in rows_of(panel)
        if point.done < point.seeds
    ]
    return tuple(sorted(found, key=lambda problem: -problem.failed))


def hardware_table(machines: Iterable[Mapping[str, Any]]) -> Table:
    """A row for each recorded fact, a column for each machine; what is null shows its reason.

    NAME_reason stands in the cell of NAME and has no row of its own.
    """
    records = list(machines)
    names = dict.fromkeys(name for record in records for name in record)
    reasons = {f"{name}_reason" for name in names}
    rows = [
        Row((Cell(name, sort=name), *(_fact(record, name) for record in records)))
        for name in names
        if name not in reasons
    ]
    heads = ["this machine"] if len(records) == 1 else [f"machine {i}" for i in range(1, len(records) + 1)]
    return Table((("fact", False), *((head, False) for head in heads)), tuple(rows))


def _fact(record: Mapping[str, Any], name: str) -> Cell:
    if name not in record:
        return Cell("not recorded")
    item = record[name]
    if item is None:
        return Cell("not measured", str(record.get(f"{name}_reason") or "no reason recorded"))
    if name.endswith("_bytes") and isinstance(item, int | float):
        return Cell(byte_count(item), f"{item:,} bytes")
    return Cell(value(item))
