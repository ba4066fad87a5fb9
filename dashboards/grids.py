"""The table of a section to work with: CSV with every number, Markdown and LaTeX with those that a paper prints."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from io import StringIO
from typing import Any

from dashboards.markup import latex_table, markdown_table, markdown_text
from dashboards.text import MISSING, column_writer, estimate, finite
from tasks.summary import Grid, Interval, Section, Value


def grid_csv(grid: Grid) -> str:
    """The rows of `grid` with full precision; what does not exist is empty.

    A column that holds estimates becomes five: NAME (the mean), NAME.low, NAME.high (95% interval), NAME.n and
    NAME.method.
    """
    estimates = [any(isinstance(row[i], Interval) for row in grid.rows) for i in range(len(grid.columns))]
    header: list[str] = []
    for name, wide in zip(grid.columns, estimates, strict=True):
        header += [name, f"{name}.low", f"{name}.high", f"{name}.n", f"{name}.method"] if wide else [name]
    text = StringIO(newline="")
    table = csv.writer(text)
    table.writerow(header)
    for row in grid.rows:
        cells: list[Any] = []
        for value, wide in zip(row, estimates, strict=True):
            cells += _fields(value) if wide else [_number(value)]
        table.writerow(cells)
    return text.getvalue()


def _fields(value: Value) -> list[Any]:
    if isinstance(value, Interval):
        found = finite(value)
        return [None] * 5 if found is None else [found.mean, found.low, found.high, found.n, found.method]
    return [_number(value), None, None, None, None]


def _number(value: Value) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def grid_markdown(section: Section, grid: Grid) -> str:
    """The heading and the sentences of `section`, and `grid` as a GitHub-flavoured table."""
    parts = [f"## {markdown_text(section.title)}"]
    parts += [markdown_text(sentence) for sentence in section.text]
    parts.append(markdown_table(grid.columns, printed_rows(grid)))
    if legend := grid_legend(grid):
        parts.append(f"{markdown_text(legend)}.")
    return "\n\n".join(parts) + "\n"


def grid_latex(section: Section, grid: Grid) -> str:
    """`grid` as a `tabular` with booktabs rules, with the heading of `section` as a comment."""
    comments = [r"\usepackage{booktabs} and, for quotation marks, \usepackage[T1]{fontenc}", section.title]
    if legend := grid_legend(grid):
        comments.append(legend)
    lines = [f"% {' '.join(comment.split())}" for comment in comments]
    alignment = "".join("r" if number else "l" for number in numeric_columns(grid))
    return "\n".join([*lines, latex_table(alignment, grid.columns, printed_rows(grid))]) + "\n"


def printed_rows(grid: Grid) -> list[list[str]]:
    """Every cell of `grid` as people read it, estimates as `mean [low, high]`."""
    return [[printed(value, name) for name, value in zip(grid.columns, row, strict=True)] for row in grid.rows]


def printed(value: Value, column: str) -> str:
    """One value of the column named `column`; a dash where there is none."""
    if isinstance(value, Interval):
        found = finite(value)
        return MISSING if found is None else estimate(found, column_writer(column))
    return plain_value(value, column)


def plain_value(value: str | float | None, column: str) -> str:
    """A text or a number without interval of the column named `column`; a dash where there is none."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return column_writer(column)(value) if math.isfinite(value) else MISSING
    return MISSING if value is None else value


def numeric_columns(grid: Grid) -> list[bool]:
    """Which columns hold numbers and nothing else."""
    found = []
    for i in range(len(grid.columns)):
        values = [row[i] for row in grid.rows if row[i] is not None]
        found.append(bool(values) and not any(isinstance(value, str | bool) for value in values))
    return found


def estimates_of(grid: Grid) -> list[Interval]:
    """Every estimate of `grid` that exists, row by row."""
    return [
        found
        for row in grid.rows
        for value in row
        if isinstance(value, Interval) and (found := finite(value)) is not None
    ]


def grid_methods(grid: Grid | None) -> list[str]:
    """How the intervals of `grid` were computed: every method in use, in order of appearance."""
    return [] if grid is None else list(dict.fromkeys(interval.method for interval in estimates_of(grid)))


def seeds_behind(intervals: Iterable[Interval]) -> str:
    """`n = 10`, or `n = 8 to 10`."""
    counts = sorted({interval.n for interval in intervals})
    return f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"


def grid_legend(grid: Grid) -> str:
    """What brackets mean, how they were computed and how many seeds stand behind; empty without estimates."""
    if not (found := estimates_of(grid)):
        return ""
    return f"mean [95% interval]; intervals: {'; '.join(grid_methods(grid))}; {seeds_behind(found)}"
