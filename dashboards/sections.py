"""The sections of a report page as plain data for its template."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboards.charts import ChartView, draw_chart
from dashboards.grids import estimates_of, grid_csv, grid_methods, numeric_columns, plain_value, seeds_behind
from dashboards.page import Cell, Row, Table
from dashboards.rendering import embedded
from dashboards.style import Style
from dashboards.text import MISSING, bounds, column_writer, finite, measure
from tasks.summary import Chart, Grid, Interval, Section, Summary, Value

TAKEN = frozenset({"frontier", "frontier-slots", "frontier-bytes", "report", "spec", "certificate"})
"""Names of other files that a report's folder may hold."""


@dataclass(frozen=True)
class ChartPage:
    """A chart and its numbers as a table."""

    view: ChartView
    numbers: Table


@dataclass(frozen=True)
class TablePage:
    """A section's table; the letters and names of its methods of intervals, the seeds behind it, its CSV in base 64."""

    table: Table
    methods: dict[str, str]
    seeds: str
    csv: str


@dataclass(frozen=True)
class SectionPage:
    """Everything the page says in one section."""

    name: str
    title: str
    text: tuple[str, ...]
    charts: tuple[ChartPage, ...]
    table: TablePage | None


def check_sections(summary: Summary) -> None:
    """Raise ValueError unless the sections of `summary` have names that can name its files."""
    names = [section.name for section in summary.sections]
    unfit = [name for name in names if name in TAKEN or not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name)]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if unfit or twice:
        raise ValueError(
            f"a section's name must be its own and fit for a file's name (small letters, digits, '-', '_', '.'), and "
            f"none of {', '.join(sorted(TAKEN))}; got {', '.join(map(repr, unfit or twice))}"
        )


def section_page(section: Section, styles: Mapping[str, Style], methods: Mapping[str, str]) -> SectionPage:
    """Lay out `section`; `methods` maps the letter that marks a method of intervals to its name."""
    return SectionPage(
        name=section.name,
        title=section.title,
        text=section.text,
        charts=tuple(ChartPage(draw_chart(chart, styles), _numbers(chart, styles)) for chart in section.charts),
        table=None if section.table is None else _table_page(section.table, styles, methods),
    )


def _table_page(grid: Grid, styles: Mapping[str, Style], methods: Mapping[str, str]) -> TablePage:
    used = grid_methods(grid)
    letters = {method: letter for letter, method in methods.items()} if len(methods) > 1 else {}
    intervals = estimates_of(grid)
    alike = len({interval.n for interval in intervals}) < 2
    columns = tuple(zip(grid.columns, numeric_columns(grid), strict=True))
    rows = tuple(
        Row(
            tuple(_cell(item, name, letters, alike) for name, item in zip(grid.columns, row, strict=True)),
            next((styles[item] for item in row[:1] if isinstance(item, str) and item in styles), None),
        )
        for row in grid.rows
    )
    return TablePage(
        table=Table(columns, rows),
        methods={letter: method for letter, method in methods.items() if method in used},
        seeds=seeds_behind(intervals) if intervals else "",
        csv=embedded(grid_csv(grid)),
    )


def _cell(item: Value, column: str, letters: Mapping[str, str], alike: bool) -> Cell:
    """One cell; its n stands in it only where the numbers of the table differ in theirs."""
    if not isinstance(item, Interval):
        text = plain_value(item, column)
        return Cell(text) if text == MISSING else Cell(text, sort=item)
    interval = finite(item)
    if interval is None:
        return Cell(MISSING)
    write = column_writer(column)
    n = "" if alike else f", n = {interval.n}"
    return Cell(write(interval.mean), bounds(interval, write) + n, letters.get(interval.method, ""), interval.mean)


def _numbers(chart: Chart, styles: Mapping[str, Style]) -> Table:
    """Every point of `chart`, line by line."""
    rows: list[Row] = []
    for line in chart.lines:
        nothing: Sequence[Any] = (None,) * len(line.x)
        points = zip(line.x, line.y, line.low or nothing, line.high or nothing, strict=True)
        for x, y, low, high in points:
            cells = (Cell(line.label, sort=line.label), _plain(x), _estimate(y, low, high))
            rows.append(Row(cells, styles[line.label]))
    return Table((("line", False), (chart.x_label, True), (chart.y_label, True)), tuple(rows))


def _plain(number: float) -> Cell:
    interval = finite(Interval(number, None, None, 1, ""))
    return Cell(MISSING) if interval is None else Cell(measure(number), sort=number)


def _estimate(y: float, low: float | None, high: float | None) -> Cell:
    interval = finite(Interval(y, low, high, 1, ""))
    if interval is None or interval.low is None:
        return _plain(y)
    return Cell(measure(y), bounds(interval, measure), sort=y)
