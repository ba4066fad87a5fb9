"""A chart of lines as a figure for papers and slides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dashboards.axes import Axis, axis_title, tick_text
from dashboards.charts import Place, axes_of, bounded, is_sparse, places_of, seen_marks, strokes
from dashboards.paper import LEFT, draw_legend, handle, paper_axes, pen, say_empty, set_ticks
from dashboards.style import LIGHT_COLOURS, MARKERS, Style, band_opacity
from tasks.summary import Chart, Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIGIT_INCHES = 0.075
INTERVALS_NOTE = "bars and bands:\npointwise intervals"


def chart_figure(chart: Chart, style_of: Mapping[str, Style]) -> Figure:
    """Draw `chart`: points with whiskers where they are few, with a band where they are many, lines, and a legend."""
    x_axis, y_axis = axes_of(chart)
    digits = max((len(tick_text(tick)) for tick in y_axis.ticks), default=0)
    figure, axes = paper_axes([line.label for line in chart.lines], max(LEFT, 0.35 + DIGIT_INCHES * digits))
    _prepare(axes, chart, x_axis, y_axis)
    lines = [(line, places_of(line, x_axis, y_axis)) for line in chart.lines]
    opacity = band_opacity(len(lines))
    for line, places in lines:
        for stroke in strokes(line, places, x_axis, y_axis):
            axes.plot([x for x, _ in stroke], [y for _, y in stroke], **pen(style_of[line.label]))
        _draw_points(axes, line, places, style_of[line.label], opacity)
    if not any(places for _, places in lines):
        say_empty(axes, "nothing measured yet")
    intervals = any(place.ends for _, places in lines for place in places)
    draw_legend(axes, [(line.label, handle(style_of[line.label])) for line in chart.lines], INTERVALS_NOTE * intervals)
    return figure


def _prepare(axes: Axes, chart: Chart, x_axis: Axis, y_axis: Axis) -> None:
    """Scales, limits, ticks and titles."""
    axes.set_xscale("log" if x_axis.log else "linear")
    axes.set_yscale("log" if y_axis.log else "linear")
    axes.set_xlim(x_axis.low, x_axis.high)
    axes.set_ylim(y_axis.low, y_axis.high)
    set_ticks(axes.xaxis, x_axis.ticks, [tick_text(tick) for tick in x_axis.ticks])
    set_ticks(axes.yaxis, y_axis.ticks, [tick_text(tick) for tick in y_axis.ticks])
    axes.set_xlabel(axis_title(chart.x_label, chart.log_x), parse_math=False)
    axes.set_ylabel(axis_title(chart.y_label, chart.log_y), parse_math=False)


def _draw_points(axes: Axes, line: Line, places: Sequence[Place], style: Style, opacity: float) -> None:
    colour, marker = LIGHT_COLOURS[style.colour], MARKERS[style.marker].matplotlib
    sparse = is_sparse(line, places)
    if not sparse:
        for run in bounded(places):
            low, high = zip(*(place.ends for place in run if place.ends is not None), strict=True)
            axes.fill_between([place.x for place in run], low, high, color=colour, alpha=opacity, linewidth=0)
    marked = [place for place, seen in zip(places, seen_marks(line, places), strict=True) if seen]
    if marked:
        axes.errorbar(
            [place.x for place in marked],
            [place.y for place in marked],
            yerr=_arms(marked) if sparse else None,
            fmt=marker, color=colour, markersize=4.5, elinewidth=0.8, clip_on=False, zorder=3,
        )  # fmt: skip


def _arms(places: Sequence[Place]) -> list[list[float]]:
    """Lengths of the whiskers below and above each point; 0 where the interval is undefined."""
    ends = [(place.y, *(place.ends or (place.y, place.y))) for place in places]
    return [[max(y - low, 0.0) for y, low, _ in ends], [max(high - y, 0.0) for y, _, high in ends]]
