"""The frontier as image files for papers and slides: PNG, SVG and PDF of every panel and size axis."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboards.scale import SizeScale, size_scale, size_writer
from dashboards.steps import Measured, frontier, measured, recalls_of
from dashboards.style import DASHES, LIGHT_COLOURS, MARKERS, Style, band_opacity, styles
from dashboards.text import plain
from tasks.summary import SIZE_AXES, Panel, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 200
AXES_INCHES = (6.2, 3.9)
LEFT, BOTTOM, TOP = 0.65, 0.6, 0.42
LEGEND_INCHES = 2.1
LEGEND_ROWS = 18
LABEL_LENGTH = 28
MARKS_NOTE = "filled: on the frontier\nhollow: not on it\nband: pointwise interval"
METADATA = {"png": {"Software": "slotsweep"}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""No dates: the same numbers give the same files."""


def write_figures(summary: Summary, folder: Path) -> list[Path]:
    """Write `frontier-slots.png`, `.svg`, `.pdf` and the same for bytes into `folder`; return their paths.

    Several panels give one figure each, numbered from 1: `frontier-slots-1.png`. The recall shown is `recall`, or
    `recall_all` where a panel has no other. Sizes are in slots, or in bytes with binary units.
    """
    import matplotlib as mpl

    style_of = styles(summary.panels)
    several = len(summary.panels) > 1
    written = []
    with (
        mpl.rc_context({"svg.hashsalt": "slotsweep", "svg.fonttype": "path", "font.size": 9}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        for axis in SIZE_AXES:
            for number, panel in enumerate(summary.panels, start=1):
                stem = f"frontier-{axis}-{number}" if several else f"frontier-{axis}"
                figure = frontier_figure(panel, axis, style_of)
                for suffix, metadata in METADATA.items():
                    path = folder / f"{stem}.{suffix}"
                    figure.savefig(path, dpi=DPI, metadata=metadata)
                    written.append(path)
    return written


def frontier_figure(panel: Panel, axis: str, style_of: Mapping[str, Style]) -> Figure:
    """Draw `panel` over `axis`: staircases, pointwise interval bands, points with error bars, chance, legend."""
    from matplotlib.figure import Figure

    columns = -(-max(len(panel.curves), 1) // LEGEND_ROWS)
    width = LEFT + AXES_INCHES[0] + LEGEND_INCHES * columns
    height = BOTTOM + AXES_INCHES[1] + TOP
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes(
        (LEFT / width, BOTTOM / height, AXES_INCHES[0] / width, AXES_INCHES[1] / height),
    )
    metric = next(iter(recalls_of(panel)), "recall")
    lines = [[entry for entry in measured(curve, axis, metric) if entry.size.mean > 0] for curve in panel.curves]
    _prepare(axes, panel, axis, metric, size_scale(entry.size.mean for line in lines for entry in line))
    opacity = band_opacity(len(lines))
    handles = [
        _draw_curve(axes, line, frontier(line, axis, metric), style_of[curve.label], opacity)
        for curve, line in zip(panel.curves, lines, strict=True)
    ]
    if not any(lines):
        axes.text(0.5, 0.5, "no finished trial", transform=axes.transAxes, ha="center", va="center", fontsize=14)
    _legend(axes, handles, [curve.label for curve in panel.curves], columns)
    return figure


def _prepare(axes: Axes, panel: Panel, axis: str, metric: str, scale: SizeScale) -> None:
    """Axes, ticks, grid, titles and the line of chance."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    write = size_writer(axis)
    axes.set_xscale("log")
    axes.set_xlim(scale.low, scale.high)
    axes.set_ylim(0, 1.04)
    axes.xaxis.set_major_locator(FixedLocator(list(scale.ticks)))
    axes.xaxis.set_major_formatter(FixedFormatter([write(size) for size in scale.ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(f"{axis}, measured (log scale)")
    axes.set_ylabel(metric)
    axes.set_title(_short(panel.title, 80), loc="left", fontsize=10, parse_math=False)
    if panel.chance is not None:
        axes.axhline(panel.chance, color="#555555", linewidth=0.9, linestyle=(0, (4, 3)))
        axes.annotate(f"chance {plain(panel.chance)}", (1, panel.chance), xycoords=("axes fraction", "data"),
                      xytext=(-3, 3), textcoords="offset points", ha="right", color="#555555", fontsize=8)  # fmt: skip


def _draw_curve(axes: Axes, line: Sequence[Measured], steps: Sequence[Measured], style: Style, opacity: float) -> Any:
    """Draw one curve with its frontier `steps` and return what stands for it in the legend."""
    from matplotlib.lines import Line2D

    colour, marker = LIGHT_COLOURS[style.colour], MARKERS[style.marker].matplotlib
    dashes = [length / 2 for length in DASHES[style.dash]]
    pen: dict[str, Any] = {"color": colour, "linewidth": 1.3, "linestyle": (0, dashes) if dashes else "solid"}
    if steps:
        recalls = [step.recall.mean for step in steps]
        edges = [*(step.size.mean for step in steps), axes.get_xlim()[1]]
        lows, highs = _band(steps)
        axes.fill_between(
            edges, [*lows, lows[-1]], [*highs, highs[-1]], step="post", color=colour, alpha=opacity, linewidth=0
        )
        axes.step(edges[:-1], recalls, where="post", **pen)
        axes.plot(edges[-2:], [recalls[-1]] * 2, color=colour, linewidth=0.8, linestyle=(0, (1, 2)))
    on_frontier = {step.number for step in steps}
    _draw_points(axes, [entry for entry in line if entry.number in on_frontier], colour, marker, colour)
    _draw_points(axes, [entry for entry in line if entry.number not in on_frontier], colour, marker, "white")
    return Line2D([], [], marker=marker, markersize=5, **pen)


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


def _legend(axes: Axes, handles: Sequence[Any], labels: Sequence[str], columns: int) -> None:
    """Labels are set after the legend is made: Matplotlib drops those that begin with an underscore."""
    if not handles:
        return
    legend = axes.legend(handles, ["x"] * len(labels), loc="upper left", bbox_to_anchor=(1.02, 1.01), ncols=columns,
                         frameon=False, fontsize=8, borderaxespad=0)  # fmt: skip
    axes.annotate(MARKS_NOTE, (1.02, 0), xycoords="axes fraction", color="#555555", fontsize=7, va="bottom")
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set_parse_math(False)
        text.set_text(_short(label, LABEL_LENGTH))


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
