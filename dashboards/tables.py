"""The frontier as tables to work with: CSV with every number, Markdown and LaTeX with those that a paper prints."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from dashboards.glossary import METRICS
from dashboards.steps import metric_of
from dashboards.text import MISSING, estimate, settings, writer
from tasks.summary import SIZE_AXES, Curve, Panel, Point, Summary

PRINTED = ("recall", "recall_all", "slots", "bytes")

LATEX_SPECIALS = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        MISSING: "--",
        "\n": " ",
    }
)
MARKDOWN_SPECIALS = str.maketrans({**{char: f"\\{char}" for char in r"\`*_{}[]<>#|~"}, "\n": " "})


def write_tables(summary: Summary, folder: Path) -> list[Path]:
    """Write `frontier.csv`, `frontier.md` and `frontier.tex` into `folder`; return their paths."""
    written = []
    for name, make in (("frontier.csv", as_csv), ("frontier.md", as_markdown), ("frontier.tex", as_latex)):
        path = folder / name
        path.write_text(make(summary), encoding="utf-8", newline="")
        written.append(path)
    return written


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
        header = ["mechanism", "settings", *names, "n", "frontier"]
        lines = [
            f"## {panel.title.translate(MARKDOWN_SPECIALS)}\n",
            f"| {' | '.join(name.translate(MARKDOWN_SPECIALS) for name in header)} |",
            f"|{'---|' * len(header)}",
        ]
        lines += [
            f"| {' | '.join(cell.translate(MARKDOWN_SPECIALS) for cell in row)} |" for row in _cells(panel, names)
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join([*parts, f"{_legend(summary)}\n"])


def as_latex(summary: Summary) -> str:
    """A `tabular` with booktabs rules for each panel, with its title as a comment."""
    parts = [r"% \usepackage{booktabs} and, for quotation marks, \usepackage[T1]{fontenc}"]
    parts += [f"% {line}" for line in _legend(summary).splitlines()]
    for panel in summary.panels:
        names = _printed(panel)
        header = ["mechanism", "settings", *names, "n", "frontier"]
        parts += [
            f"\n% {' '.join(panel.title.split())}",
            rf"\begin{{tabular}}{{ll{'r' * len(names)}rl}}",
            r"\toprule",
            _latex_row(header),
            r"\midrule",
            *(_latex_row(row) for row in _cells(panel, names)),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    return "\n".join(parts) + "\n"


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cell.translate(LATEX_SPECIALS) for cell in cells) + r" \\"


def _printed(panel: Panel) -> list[str]:
    found = metric_names(point for _, point in rows_of(panel))
    return [name for name in PRINTED if name in found]


def _cells(panel: Panel, names: Iterable[str]) -> Iterator[list[str]]:
    for curve, point in rows_of(panel):
        numbers = []
        for name in names:
            found = metric_of(point, name)
            numbers.append(MISSING if found is None else estimate(found, writer(name)))
        yield [curve.label, settings(point.settings), *numbers, f"{point.done}/{point.seeds}", frontier_axes(point)]


def frontier_axes(point: Point) -> str:
    """The size axes on whose frontier the point lies: `slots, bytes`, or a dash."""
    return ", ".join(axis for axis in SIZE_AXES if point.on_frontier.get(axis, False)) or MISSING


def interval_methods(summary: Summary) -> list[str]:
    """How the intervals of the points were computed: every method in use, in order of appearance."""
    points = (point for panel in summary.panels for _, point in rows_of(panel))
    return list(dict.fromkeys(interval.method for point in points for interval in point.metrics.values()))


def mark_methods(summary: Summary) -> dict[str, str]:
    """Letters (a, b, ... z, aa, ab, ...) that stand for the methods in use, so that a cell can name its own."""
    letters = ("".join(pair) for length in (1, 2) for pair in product(ascii_lowercase, repeat=length))
    return dict(zip(letters, interval_methods(summary), strict=False))


def _legend(summary: Summary) -> str:
    methods = "; ".join(interval_methods(summary)) or "no finished trial"
    return (
        f"mean [interval]; intervals: {methods}; n: seeds done of seeds asked for; "
        "frontier: size axes on whose frontier the cell lies"
    )
