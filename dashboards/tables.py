"""The tables of a report to work with: CSV with every number, Markdown and LaTeX with those that a paper prints."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from dashboards.glossary import METRICS
from dashboards.grids import grid_csv, grid_latex, grid_markdown, grid_methods
from dashboards.markup import latex_table, markdown_table, markdown_text
from dashboards.steps import metric_of
from dashboards.text import MISSING, estimate, settings, writer
from tasks.summary import SIZE_AXES, Curve, Panel, Point, Summary

PRINTED = ("recall", "recall_all", "slots", "bytes")


def write_tables(summary: Summary, folder: Path) -> list[Path]:
    """Write every table as `.csv`, `.md` and `.tex` into `folder`; return their paths.

    `frontier` has the cells of the panels, if there are any; the table of a section has the section's name.
    """
    texts: dict[str, str] = {}
    if summary.panels:
        texts |= {
            "frontier.csv": as_csv(summary),
            "frontier.md": as_markdown(summary),
            "frontier.tex": as_latex(summary),
        }
    for section in summary.sections:
        if grid := section.table:
            texts |= {
                f"{section.name}.csv": grid_csv(grid),
                f"{section.name}.md": grid_markdown(section, grid),
                f"{section.name}.tex": grid_latex(section, grid),
            }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return [folder / name for name in texts]


def metric_names(points: Iterable[Point]) -> list[str]:
    """Every metric that a point has: those the glossary knows first, in its order, then the rest by name."""
    found = {name for point in points for name in point.metrics}
    return [name for name in METRICS if name in found] + sorted(found - set(METRICS))


def rows_of(panel: Panel) -> Iterator[tuple[Curve, Point]]:
    """Every cell of `panel`, curve by curve."""
    return ((curve, point) for curve in panel.curves for point in curve.points)


def as_csv(summary: Summary) -> str:
    """One row a cell, with full precision.

    Columns: panel, mechanism, curve; one `setting.NAME` for each setting; for each metric NAME (its mean over seeds),
    NAME.low and NAME.high (95% interval), NAME.n and NAME.method; frontier.slots and frontier.bytes (1 or 0); seeds,
    done, failed. A number that does not exist is empty.
    """
    cells = [(panel, curve, point) for panel in summary.panels for curve, point in rows_of(panel)]
    names = metric_names(point for _, _, point in cells)
    varied = list(dict.fromkeys(name for _, _, point in cells for name in point.settings))
    header = ["panel", "mechanism", "curve", *(f"setting.{name}" for name in varied)]
    for name in names:
        header += [name, f"{name}.low", f"{name}.high", f"{name}.n", f"{name}.method"]
    header += [*(f"frontier.{axis}" for axis in SIZE_AXES), "seeds", "done", "failed"]
    text = StringIO(newline="")
    table = csv.writer(text)
    table.writerow(header)
    for panel, curve, point in cells:
        row: list[Any] = [panel.title, curve.mechanism, curve.label, *(point.settings.get(name) for name in varied)]
        for name in names:
            found = metric_of(point, name)
            row += [None] * 5 if found is None else [found.mean, found.low, found.high, found.n, found.method]
        row += [int(point.on_frontier.get(axis, False)) for axis in SIZE_AXES]
        table.writerow([*row, point.seeds, point.done, point.failed])
    return text.getvalue()


def as_markdown(summary: Summary) -> str:
    """A GitHub-flavoured table for each panel."""
    parts = []
    for panel in summary.panels:
        names = _printed(panel)
        table = markdown_table(["mechanism", "settings", *names, "n", "frontier"], _cells(panel, names))
        parts.append(f"## {markdown_text(panel.title)}\n\n{table}\n")
    return "\n".join([*parts, f"{_legend(summary)}\n"])


def as_latex(summary: Summary) -> str:
    """A `tabular` with booktabs rules for each panel, with its title as a comment."""
    parts = [r"% \usepackage{booktabs} and, for quotation marks, \usepackage[T1]{fontenc}"]
    parts += [f"% {line}" for line in _legend(summary).splitlines()]
    for panel in summary.panels:
        names = _printed(panel)
        parts.append(f"\n% {' '.join(panel.title.split())}")
        parts.append(
            latex_table(
                f"ll{'r' * len(names)}rl",
                ["mechanism", "settings", *names, "n", "frontier"],
                _cells(panel, names),
            )
        )
    return "\n".join(parts) + "\n"


def _printed(panel: Panel) -> list[str]:
    found = metric_names(point for _, point in rows_of(panel))
    return [name for name in PRINTED if name in found]


def _cells(panel: Panel, names: Iterable[str]) -> Iterator[list[str]]:
    for curve, point in rows_of(panel):
        numbers = []
        for name in names:
            found = metric_of(point, name)
            numbers.append(MISSING if found is None else estimate(found, writer(name)))
        yield [curve.title, settings(point.settings), *numbers, f"{point.done}/{point.seeds}", frontier_axes(point)]


def frontier_axes(point: Point) -> str:
    """The size axes on whose frontier the point lies: `slots, bytes`, or a dash."""
    return ", ".join(axis for axis in SIZE_AXES if point.on_frontier.get(axis, False)) or MISSING


def interval_methods(summary: Summary) -> list[str]:
    """How the intervals of the points were computed: every method in use, in order of appearance."""
    points = (point for panel in summary.panels for _, point in rows_of(panel))
    return list(dict.fromkeys(interval.method for point in points for interval in point.metrics.values()))


def mark_methods(summary: Summary) -> dict[str, str]:
    """Letters (a, b, ... z, aa, ab, ...) that stand for the methods in use, so that a cell can name its own.

    Those of the points come first, then those of the sections' tables.
    """
    methods = dict.fromkeys(interval_methods(summary))
    methods |= dict.fromkeys(method for section in summary.sections for method in grid_methods(section.table))
    letters = ("".join(pair) for length in (1, 2) for pair in product(ascii_lowercase, repeat=length))
    return dict(zip(letters, methods, strict=False))


def _legend(summary: Summary) -> str:
    methods = "; ".join(interval_methods(summary)) or "no finished trial"
    return (
        f"mean [interval]; intervals: {methods}; n: seeds done of seeds asked for; "
        "frontier: size axes on whose frontier the cell lies"
    )
