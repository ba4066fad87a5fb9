"""What a finished (or running) sweep says: plain data that reports and tables are drawn from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from models.mechanism import Role

SIZE_AXES = ("slots", "bytes")


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95% interval.

    low, high: None where undefined (n < 2); `method` names how they were computed, or why they are undefined.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    method: str


@dataclass(frozen=True)
class Point:
    """One cell: a mechanism's config on a workload, over its seeds.

    settings     the numeric fields that vary within the curve, e.g. {"budget": 64}
    metrics      an Interval for each metric (`recall`, `recall_all`, `slots`, `bytes`, ...); empty if no seed finished
    on_frontier  per size axis: whether no other point of the curve has at least its recall at no larger size, one of
                 the two strictly better; equal points are all kept
    seeds        seeds asked for; done and failed of them. The rest is missing
    """

    settings: dict[str, Any]
    metrics: dict[str, Interval]
    on_frontier: dict[str, bool]
    seeds: int
    done: int
    failed: int


@dataclass(frozen=True)
class Curve:
    """One mechanism (with its non-numeric settings) on one workload, points by rising size.

    role, bounds: the part that the mechanism plays in the comparison, and of a bound what it bounds
    hypervolume, area: per size axis, an Interval by paired bootstrap over seeds, or None where too few points finished.
    """

    mechanism: str
    label: str
    points: tuple[Point, ...]
    hypervolume: dict[str, Interval | None]
    area: dict[str, Interval | None]
    role: Role = "memory"
    bounds: str = ""

    @property
    def title(self) -> str:
        """The label, and of a bound what it bounds."""
        return f"{self.label} ({self.bounds})" if self.bounds else self.label


@dataclass(frozen=True)
class Panel:
    """One workload config: its curves share streams, seeds and axes.

    reference: per size axis, the size that hypervolume normalises by (the full stream, as measured or counted)
    size_range: per size axis, the range (lo, hi) over which areas are taken
    """

    workload: dict[str, Any]
    title: str
    chance: float | None
    curves: tuple[Curve, ...]
    reference: dict[str, float]
    size_range: dict[str, tuple[float, float]]

    @property
    def asks(self) -> bool:
        """Whether anything was asked of its curves that finished, so that there is a frontier of recall."""
        return any("recall" in point.metrics or "recall_all" in point.metrics for point in self._points)

    @property
    def axes(self) -> tuple[str, ...]:
        """The size axes on which its curves have sizes: networks have no slots. Both where nothing has finished."""
        return tuple(axis for axis in SIZE_AXES if any(axis in point.metrics for point in self._points)) or SIZE_AXES

    @property
    def _points(self) -> list[Point]:
        return [point for curve in self.curves for point in curve.points]


Value = str | int | float | Interval | None
"""What stands in a table: text, a number, an estimate with its interval, or nothing."""


@dataclass(frozen=True)
class Grid:
    """A table: named columns, and rows as wide as there are columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class Line:
    """One line of a chart: points (x, y) by rising x, and where known the ends of y's 95% interval at each.

    joined: whether the points are drawn as a line; else each is a mark by itself
    fit: a law fitted to the points, its value at each x, which the line then follows instead of the points
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float | None, ...] | None = None
    high: tuple[float | None, ...] | None = None
    joined: bool = True
    fit: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Chart:
    """Lines over a common x. x_label and y_label carry the units; log_x, log_y: logarithmic axes."""

    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Section:
    """A part of a report beside the frontiers: a heading, sentences (one a paragraph), a table, charts.

    name     short and fit for a file's name, unique within a summary
    leading  whether it says what the job was for, and is shown where there is room for little
    finding  whether its first sentence says what was found
    """

    name: str
    title: str
    text: tuple[str, ...] = ()
    table: Grid | None = None
    charts: tuple[Chart, ...] = ()
    leading: bool = False
    finding: bool = False


@dataclass(frozen=True)
class Summary:
    """Panels in the order of the spec, what the job type adds, and what a reader must know (failed cells, ...)."""

    panels: tuple[Panel, ...]
    warnings: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """The size axes of its panels."""
        return tuple(axis for axis in SIZE_AXES if any(axis in panel.axes for panel in self.panels))


@dataclass(frozen=True)
class ReportInput:
    """Everything a report shows. Times are ISO 8601 in UTC.

    counts     trials, done, failed, reused
    failures   reason -> count
    hardware   one flat record a machine (`hw.*` names without the prefix); None values carry a reason under NAME_reason
    reproduce  shell commands that make this report again
    """

    sweep: str
    name: str
    kind: str
    state: str
    created: str
    finished: str | None
    seconds: float | None
    counts: dict[str, int]
    failures: dict[str, int]
    spec: str
    summary: Summary
    hardware: tuple[dict[str, Any], ...]
    reproduce: tuple[str, ...]
    software: dict[str, str] = field(default_factory=dict)
