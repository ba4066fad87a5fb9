"""Figures as image files for papers and slides: PNG, SVG and PDF of every panel and size axis, and of every chart."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dashboards.chart_figures import chart_figure
from dashboards.drawing import LAYERS
from dashboards.paper import bound_pen, draw_legend, handle, key, paper_axes, pen, say_empty, set_ticks, short
from dashboards.scale import SizeScale, size_scale, size_writer
from dashboards.steps import Measured, frontier, in_front, measured, recalls_of
from dashboards.style import GROUPS, LIGHT_COLOURS, MARKERS, Look, Style, band_opacity, look_of, styles
from dashboards.text import plain
from tasks.summary import Panel, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

T = TypeVar("T")

DPI = 200
MARKS_NOTE = "filled: on the frontier\nhollow: not on it\nband: pointwise interval"
BEHIND_PEN: dict[str, Any] = {"color": "#b4b8bd", "linewidth": 0.8, "marker": ".", "markersize": 3}
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
    """Draw `panel` over `axis`: staircases, pointwise interval bands, points with error bars, chance, legend.

    States of fixed size are marks alone, bounds thin dark lines; of many memories those that are never best are grey.
    """
    front = in_front(panel)
    looks = [look_of(curve, front) for curve in panel.curves]
    keys = _keys(panel, looks, style_of)
    figure, axes = paper_axes([label for label, _ in keys])
    metric = next(iter(recalls_of(panel)), "recall")
    bounds = [curve.label for curve, look in zip(panel.curves, looks, strict=True) if look == "bound"]
    lines = [[entry for entry in measured(curve, axis, metric) if entry.size.mean > 0] for curve in panel.curves]
    _prepare(axes, panel, axis, metric, size_scale(entry.size.mean for line in lines for entry in line))
    opacity = band_opacity(looks.count("front"))
    for curve, line, look in sorted(zip(panel.curves, lines, looks, strict=True), key=lambda one: LAYERS.index(one[2])):
        steps = frontier(line, axis, metric)
        if look == "bound":
            number = bounds.index(curve.label)
            _draw_steps(axes, steps, bound_pen(number))
            _draw_note(axes, steps, curve.bounds if axis == "slots" else "", above=number % 2 == 0)
        elif look == "behind":
            _draw_steps(axes, steps, BEHIND_PEN)
        else:
            _draw_curve(axes, line, steps, style_of[curve.label], look, opacity)
    if not any(lines):
        say_empty(axes, "no finished trial")
    draw_legend(axes, keys, MARKS_NOTE)
    return figure


def _keys(panel: Panel, looks: Sequence[Look], style_of: Mapping[str, Style]) -> list[tuple[str, Line2D]]:
    """The legend, with a heading for each group where there are several; those in grey are one key."""
    keys = []
    for look, heading in GROUPS.items():
        styled = [
            (curve.label, style_of[curve.label]) for curve, one in zip(panel.curves, looks, strict=True) if one == look
        ]
        if styled and look != "behind" and len(set(looks)) > 1:
            keys.append((heading, key()))
        if look == "front":
            keys += [(label, handle(style)) for label, style in styled]
        elif look == "state":
            keys += [(label, _state_key(style)) for label, style in styled]
        elif look == "bound":
            keys += [(label, key(**bound_pen(number))) for number, (label, _) in enumerate(styled)]
        elif styled:
            keys.append((f"{len(styled)} never best: see table", key(**BEHIND_PEN)))
    return keys


def _state_key(style: Style) -> Line2D:
    colour, marker = LIGHT_COLOURS[style.colour], MARKERS[style.marker].matplotlib
    return key(linestyle="none", color=colour, marker=marker, markersize=5)


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


def _draw_steps(axes: Axes, steps: Sequence[Measured], look: Mapping[str, Any]) -> None:
    """Draw a frontier as a plain staircase, without intervals."""
    axes.step([step.size.mean for step in steps], [step.recall.mean for step in steps], where="post", **look)


def _draw_note(axes: Axes, steps: Sequence[Measured], note: str, *, above: bool) -> None:
    """Write `note` above or below the middle of a staircase."""
    for step in steps[len(steps) // 2 :][:1]:
        axes.annotate(note, (step.size.mean, step.recall.mean), xytext=(3, 3 if above else -9),
                      textcoords="offset points", fontsize=7)  # fmt: skip


def _draw_curve(
    axes: Axes, line: Sequence[Measured], steps: Sequence[Measured], style: Style, look: Look, opacity: float
) -> None:
    """Draw one curve with its frontier `steps`."""
    colour, marker = LIGHT_COLOURS[style.colour], MARKERS[style.marker].matplotlib
    if steps and look == "front":
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
