"""A chart of lines as shapes in a box of WIDTH x HEIGHT, ready to be written as SVG: geometry only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from dashboards.axes import Axis, axis_title, chart_axis, tick_text
from dashboards.drawing import Tick, shortest
from dashboards.style import Style
from dashboards.text import measure, plural
from tasks.summary import Chart, Line

WIDTH, HEIGHT = 800, 460
RIGHT, TOP, BOTTOM = 784, 12, 400
NARROWEST_LEFT = 66
DIGIT = 8.5
"""The width of a tick's digit."""

SPARSE = 24
"""A line of at most so many points has a mark and whiskers at each; a longer one a band, and a mark now and then."""

MARKS_OF_DENSE = 8


@dataclass(frozen=True)
class Place:
    """One point of a line that its chart can show: `number` is its place in the line, `ends` those of y's interval."""

    number: int
    x: float
    y: float
    ends: tuple[float, float] | None


@dataclass(frozen=True)
class Dot:
    """One point: `key` is LINE-POINT, `bars` the path of its whiskers; where not `seen` it only answers to pointing."""

    key: str
    x: float
    y: float
    seen: bool
    bars: str


@dataclass(frozen=True)
class LineShapes:
    """One line: its `path` through the points, its `band`, its dots."""

    number: int
    label: str
    style: Style
    path: str
    band: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class ChartView:
    """A chart drawn. `left` is where its x axis begins, `points` what pointing tells, by key of dot."""

    title: str
    x_title: str
    y_title: str
    left: float
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[LineShapes, ...]
    notes: tuple[str, ...]
    points: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class _Frame:
    """Where numbers stand in the box."""

    x_axis: Axis
    y_axis: Axis
    left: float

    def x(self, number: float) -> float:
        return self.left + self.x_axis(number) * (RIGHT - self.left)

    def y(self, number: float) -> float:
        return BOTTOM - self.y_axis(number) * (BOTTOM - TOP)


def draw_chart(chart: Chart, styles: Mapping[str, Style]) -> ChartView:
    """Lay out `chart`; `styles` has one for each of its labels. Bands and whiskers are intervals, point by point."""
    x_axis, y_axis = axes_of(chart)
    left = max(NARROWEST_LEFT, 36 + DIGIT * max((len(tick_text(tick)) for tick in y_axis.ticks), default=0))
    frame = _Frame(x_axis, y_axis, left)
    places = [places_of(line, x_axis, y_axis) for line in chart.lines]
    return ChartView(
        title=f"{chart.y_label} against {chart.x_label}",
        x_title=axis_title(chart.x_label, chart.log_x),
        y_title=axis_title(chart.y_label, chart.log_y),
        left=left,
        x_ticks=tuple(Tick(frame.x(tick), tick_text(tick)) for tick in x_axis.ticks),
        y_ticks=tuple(Tick(frame.y(tick), tick_text(tick)) for tick in y_axis.ticks),
        lines=tuple(
            _shapes(number, line, found, frame, styles[line.label])
            for number, (line, found) in enumerate(zip(chart.lines, places, strict=True))
        ),
        notes=_notes(chart, places),
        points={
            f"{number}-{place.number}": _told(chart, line.label, place)
            for number, (line, found) in enumerate(zip(chart.lines, places, strict=True))
            for place in found
        },
    )


def axes_of(chart: Chart) -> tuple[Axis, Axis]:
    """The x and the y axis of `chart`, wide enough for its points, the ends of their intervals and fitted laws."""
    sides = [side or () for line in chart.lines for side in (line.low, line.high, line.fit)]
    ends = [end for side in sides for end in side if end is not None]
    return (
        chart_axis((x for line in chart.lines for x in line.x), chart.log_x),
        chart_axis((*(y for line in chart.lines for y in line.y), *ends), chart.log_y),
    )


def places_of(line: Line, x_axis: Axis, y_axis: Axis) -> list[Place]:
    """The points of `line` that can stand on the axes. Raises ValueError where its columns differ in length."""
    nothing = (None,) * len(line.x)
    columns = zip(line.x, line.y, line.low or nothing, line.high or nothing, strict=True)
    return [
        Place(number, x, y, _ends(low, high))
        for number, (x, y, low, high) in enumerate(columns)
        if x_axis.shows(x) and y_axis.shows(y)
    ]


def _ends(low: float | None, high: float | None) -> tuple[float, float] | None:
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return None
    return low, high


def runs(places: Sequence[Place]) -> list[list[Place]]:
    """`places` split where a point between two of them is missing."""
    numbered = groupby(enumerate(places), lambda pair: pair[1].number - pair[0])
    return [[place for _, place in run] for _, run in numbered]


def strokes(line: Line, places: Sequence[Place], x_axis: Axis, y_axis: Axis) -> list[list[tuple[float, float]]]:
    """The points (x, y) that are drawn as lines: the fitted law, else the line's `places`, else nothing."""
    if line.fit is not None:
        law = zip(line.x, line.fit, strict=True)
        return [[(x, y) for x, y in law if x_axis.shows(x) and y_axis.shows(y)]]
    return [[(place.x, place.y) for place in run] for run in runs(places)] if line.joined else []


def bounded(places: Sequence[Place]) -> list[list[Place]]:
    """Runs of at least two of `places` that all have an interval: each takes a band."""
    return [run for run in runs([place for place in places if place.ends]) if len(run) > 1]


def is_sparse(line: Line, places: Sequence[Place]) -> bool:
    """Whether each of the line's `places` has a mark and whiskers: where they are few, or no line goes through them."""
    return len(places) <= SPARSE or not line.joined or line.fit is not None


def seen_marks(line: Line, places: Sequence[Place]) -> list[bool]:
    """Which of the line's `places` carry a mark: all of a few, every so many of many, and always the last."""
    stride = 1 if is_sparse(line, places) else math.ceil(len(places) / MARKS_OF_DENSE)
    return [i % stride == 0 or i == len(places) - 1 for i in range(len(places))]


def _shapes(number: int, line: Line, places: Sequence[Place], frame: _Frame, style: Style) -> LineShapes:
    sparse = is_sparse(line, places)
    return LineShapes(
        number,
        line.label,
        style,
        "".join(
            _polyline([(frame.x(x), frame.y(y)) for x, y in stroke])
            for stroke in strokes(line, places, frame.x_axis, frame.y_axis)
        ),
        "" if sparse else "".join(_band(part, frame) for part in bounded(places)),
        tuple(
            Dot(f"{number}-{place.number}", frame.x(place.x), frame.y(place.y), seen, _bars(place, frame) * sparse)
            for place, seen in zip(places, seen_marks(line, places), strict=True)
        ),
    )


def _polyline(corners: Sequence[tuple[float, float]]) -> str:
    if len(corners) < 2:
        return ""
    return "M" + "L".join(f"{shortest(x)} {shortest(y)}" for x, y in corners)


def _band(run: Sequence[Place], frame: _Frame) -> str:
    """Along the upper ends, and back along the lower ones."""
    low, high = (
        [(frame.x(place.x), frame.y(place.ends[side])) for place in run if place.ends is not None] for side in (0, 1)
    )
    return f"{_polyline([*high, *reversed(low)])}Z"


def _bars(place: Place, frame: _Frame) -> str:
    """Whiskers, where the interval is defined and wider than nothing."""
    if place.ends is None or place.ends[0] == place.ends[1]:
        return ""
    x = frame.x(place.x)
    low, high = (frame.y(end) for end in place.ends)
    return f"M{shortest(x - 3)} {shortest(low)}h6m-3 0V{shortest(high)}m-3 0h6"


def _told(chart: Chart, label: str, place: Place) -> dict[str, Any]:
    """What a reader sees when pointing at a dot."""
    ends = "" if place.ends is None else "[{}, {}]".format(*map(measure, place.ends))
    return {
        "label": label,
        "settings": f"{chart.x_label}: {measure(place.x)}",
        "lines": [[chart.y_label, measure(place.y), ends]],
        "seeds": "",
    }


def _notes(chart: Chart, places: Sequence[Sequence[Place]]) -> tuple[str, ...]:
    points = [(x, y) for line in chart.lines for x, y in zip(line.x, line.y, strict=True)]
    missing = sum(not (math.isfinite(x) and math.isfinite(y)) for x, y in points)
    low = len(points) - missing - sum(map(len, places))
    notes = []
    if any(line.fit for line in chart.lines):
        notes.append("Lines are fitted laws, marks what was measured.")
    if any(place.ends for found in places for place in found):
        notes.append("Bars and bands are 95% intervals, point by point.")
    if low:
        notes.append(f"{plural(low, 'point')} not above 0 cannot stand on a log axis.")
    if missing:
        notes.append(f"{plural(missing, 'point')} without a number, where a line breaks.")
    return tuple(notes)
