"""What a sweep says as tables for a terminal, readable at 80 columns and without colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboards.fitted import FittedTable
from dashboards.grids import grid_legend
from dashboards.scale import size_writer
from dashboards.steps import metric_of, recalls_of
from dashboards.text import MISSING, estimate, fraction, plain, settings
from dashboards.words import scale_notes
from tasks.summary import SIZE_AXES, Interval, Panel, Point, Section, Summary

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

LEGEND = "[..] 95% interval; n seeds done; on: frontier over slots (s), bytes (b)"


def summary_tables(summary: Summary) -> RenderableType:
    """A Rich renderable: for each panel its cells by curve and the scores of its curves; the sections; the warnings.

    A cell's line has its settings, recall with interval (`recall_all` where there is no `recall`), measured slots and
    bytes, n, and the frontiers it lies on. A section has its sentences and its table. Nothing is said by colour alone.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for panel in summary.panels:
        parts += [_cells_table(panel), _scores_table(panel)]
    if summary.panels:
        parts.append(Text(LEGEND, style="dim"))
    for section in summary.sections:
        parts += _section(section)
    parts += [Text(f"warning: {warning}", style="yellow") for warning in summary.warnings]
    if not summary.panels and not summary.sections:
        parts.append(Text("This sweep has no cells yet.", style="dim"))
    return Group(*parts)


def _section(section: Section) -> list[RenderableType]:
    """Heading, sentences and table; nothing where a section has charts alone."""
    from rich.text import Text

    if not section.text and section.table is None:
        return []
    parts: list[RenderableType] = [Text(f"\n{section.title}", style="bold"), *map(Text, section.text)]
    if section.table is not None and section.table.rows:
        parts.append(FittedTable(section.table))
        if legend := grid_legend(section.table):
            parts.append(Text(legend, style="dim"))
    elif section.table is not None:
        parts.append(Text("Nothing measured yet.", style="dim"))
    return parts


def _cells_table(panel: Panel) -> Table:
    from rich.text import Text

    metric = next(iter(recalls_of(panel)), "recall")
    title = panel.title if panel.chance is None else f"{panel.title} (chance {plain(panel.chance)})"
    table = _table(title, ("mechanism", metric, *panel.axes, "n", "on"))
    for curve in panel.curves:
        alone = len(curve.points) == 1
        if not alone:
            table.add_row(Text(curve.title, style="bold"))
        for point in curve.points:
            options = settings(point.settings) if point.settings or not alone else ""
            name = Text.assemble((curve.title, "bold"), " ", options) if alone else Text(f"  {options}")
            numbers = map(Text, _cell(point, metric, panel.axes))
            table.add_row(name, *numbers, style=None if point.done else "dim")
    return table


def _cell(point: Point, metric: str, axes: Sequence[str]) -> tuple[str, ...]:
    recall = metric_of(point, metric)
    written = [MISSING if recall is None else estimate(recall, fraction)]
    for axis in axes:
        size = metric_of(point, axis)
        written.append(MISSING if size is None else size_writer(axis)(size.mean))
    seeds = str(point.done) if point.done == point.seeds else f"{point.done}/{point.seeds}"
    on = "".join(axis[0] for axis in SIZE_AXES if point.on_frontier.get(axis, False))
    return *written, seeds, on or MISSING


def _scores_table(panel: Panel) -> Table:
    from rich.text import Text

    table = _table("", ("mechanism", "over", "hypervolume", "area"))
    for curve in panel.curves:
        for axis, label in zip(panel.axes, (curve.title, ""), strict=False):
            scores = (_score(curve.hypervolume.get(axis)), _score(curve.area.get(axis)))
            table.add_row(Text(label, style="bold"), axis, *(Text(score) for score in scores))
    table.caption = Text(" ".join(scale_notes(panel)), style="dim")
    table.caption_justify = "left"
    return table


def _score(number: Interval | None) -> str:
    return "undefined" if number is None else estimate(number, fraction)


def _table(title: str, columns: tuple[str, ...]) -> Table:
    """A table whose first column folds where space is short; the others keep their numbers whole."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        title=Text(title) if title else None,
        title_justify="left",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column(columns[0], overflow="fold")
    for name in columns[1:]:
        table.add_column(name, no_wrap=True, justify="left" if name in ("on", "over") else "right")
    return table
