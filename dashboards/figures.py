"""Figures as image files for papers and slides: PNG, SVG and PDF of every panel and size axis, and of every chart."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dashboards.chart_figures import chart_figure
from dashboards.paper import draw_legend, paper_axes, pen, say_empty, set_ticks, short
from dashboards.scale import SizeScale, size_scale, size_writer
from dashboards.steps import Measured, frontier, measured, recalls_of
from dashboards.style import LIGHT_COLOURS, MARKERS, Style, band_opacity, styles
from dashboards.text import plain
from tasks.summary import Panel, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")

DPI = 200
MARKS_NOTE = "filled: on the frontier\nhollow: not on it\nband: pointwise interval"
METADATA = {"png": {"Software": "slotsweep"}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""No dates: the same numbers give the same files."""


def write_figures(summary: Summary, folder: Path) -> list[Path]:
    """Write every figure as `.png`, `.svg` and `.pdf` into `folder`; return their paths.

    Panels give `frontier-slots` and `frontier-bytes`, as far as they have such sizes; the recall shown is `recall`, or
    `recall_all` where a panel has no other. The charts of a section have the section's name. Several of a kind are
    numbered from 1: `frontier-slots-1.png`. Sizes are in slots, or in bytes with binary units.
    """
    import matplotlib as mpl

    written = []
    with (
        mpl.rc_context({"svg.hashsalt": "slotsweep", "svg.fonttype": "path", "font.size": 9}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        for stem, figure in _figures(summary):
            for suffix, metadata in METADATA.items():
                path = folder / f"{stem}.{suffix}"
                figure.savefig(path, dpi=DPI, metadata=metadata)
                written.append(path)
    return written


def _figures(summary: Summary) -> Iterator[tuple[str, Figure]]:
    """Every figure with the name of its files."""
    charts = [chart for section in summary.sections for chart in section.charts]
    style_of = styles(summary.panels, charts)
    for axis in summary.axes:
        for stem, panel in _numbered(f"frontier-{axis}", summary.panels):
            yield stem, frontier_figure(panel, axis, style_of)
    for section in summary.sections:
        for stem, chart in _numbered(section.name, section.charts):
            yield stem, chart_figure(chart, style_of)


def _numbered(stem: str, items: Sequence[T]) -> list[tuple[str, T]]:
    if len(items) == 1:
        return [(stem, items[0])]
    return [(f"{stem}-{number}", item) for number, item in enumerate(items, start=1)]


def frontier_figure(panel: Panel, axis: str, style_of: Mapping[str, Style]) -> Figure:
    """Draw `panel` over `axis`: staircases, pointwise interval bands, points with error bars, chance, legend."""
    figure, axes = paper_axes(len(panel.curves))
    metric = next(iter(recalls_of(panel)), "recall")
    lines = [[entry for entry in measured(curve, axis, metric) if entry.size.mean > 0] for curve in panel.curves]
    _prepare(axes, panel, axis, metric, size_scale(entry.size.mean for line in lines for entry in line))
    opacity = band_opacity(len(lines))
    for curve, line in zip(panel.curves, lines, strict=True):
        _draw_curve(axes, line, frontier(line, axis, metric), style_of[curve.label], opacity)
    if not any(lines):
        say_empty(axes, "no finished trial")
    draw_legend(axes, [(curve.label, style_of[curve.label]) for curve in panel.curves], MARKS_NOTE)
    return figure


def _prepare(axes: Axes, panel: Panel, axis: str, metric: str, scale: SizeScale) -> None:
    """Axes, ticks, grid, titles and the line of chance."""
    write = size_writer(axis)
    axes.set_xscale("log")
    axes.set_xlim(scale.low, scale.high)
    axes.set_ylim(0, 1.04)
    set_ticks(axes.xaxis, scale.ticks, [write(size) for size in scale.ticks])
    axes.set_xlabel(f"{axis}, measured (log scale)")
    axes.set_ylabel(metric)
    axes.set_title(short(panel.title, 80), loc="left", fontsize=10, parse_math=False)
    if panel.chance is not None:
        axes.axhline(panel.chance, color="#555555", linewidth=0.9, linestyle=(0, (4, 3)))
        axes.annotate(f"chance {plain(panel.chance)}", (1, panel.chance), xycoords=("axes fraction", "data"),
                      xytext=(-3, 3), textcoords="offset points", ha="right", color="#555555", fontsize=8)  # fmt: skip


def _draw_curve(axes: Axes, line: Sequence[Measured], steps: Sequence[Measured], style: Style, opacity: float) -> None:
    """Draw one curve with its frontier `steps`."""
    colour, marker = LIGHT_COLOURS[style.colour], MARKERS[style.marker].matplotlib
    if steps:
        recalls = [step.recall.mean for step in steps]
        edges = [*(step.size.mean for step in steps), axes.get_xlim()[1]]
        lows, highs = _band(steps)
        axes.fill_between(
            edges, [*lows, lows[-1]], [*highs, highs[-1]], step="post", color=colour, alpha=opacity, linewidth=0
        )
        axes.step(edges[:-1], recalls, where="post", **pen(style))
        axes.plot(edges[-2:], [recalls[-1]] * 2, color=colour, linewidth=0.8, linestyle=(0, (1, 2)))
    on_frontier = {step.number for step in steps}
    _draw_points(axes, [entry for entry in line if entry.number in on_frontier], colour, marker, colour)
    _draw_points(axes, [entry for entry in line if entry.number not in on_frontier], colour, marker, "white")


def _draw_points(axes: Axes, entries: Sequence[Measured], colour: str, marker: str, face: str) -> None:
    if not entries:
        return
    axes.errorbar(
        [entry.size.mean for entry in entries],
        [entry.recall.mean for entry in entries],
        xerr=_arms([(entry.size.low, entry.size.mean, entry.size.high) for entry in entries]),
        yerr=_arms([(entry.recall.low, entry.recall.mean, entry.recall.high) for entry in entries]),
        fmt=marker, color=colour, markersize=4.5, markerfacecolor=face, elinewidth=0.8, clip_on=False, zorder=3,
    )  # fmt: skip


def _arms(ends: Sequence[tuple[float | None, float, float | None]]) -> list[list[float]]:
    """Lengths of the error bars below and above each mean; 0 where the interval is undefined."""
    below = [0.0 if low is None else max(mean - low, 0.0) for low, mean, _ in ends]
    above = [0.0 if high is None else max(high - mean, 0.0) for _, mean, high in ends]
    return [below, above]


def _band(steps: Sequence[Measured]) -> tuple[list[float], list[float]]:
    """Lower and upper edge of the band; it closes to the line where an interval is undefined."""
    lows = [step.recall.mean if step.recall.low is None else step.recall.low for step in steps]
    highs = [step.recall.mean if step.recall.high is None else step.recall.high for step in steps]
    return lows, highs
