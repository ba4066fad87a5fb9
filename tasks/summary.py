"""What a finished (or running) sweep of `kind: frontier` says: plain data that reports and tables are drawn from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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

    hypervolume, area: per size axis, an Interval by paired bootstrap over seeds, or None where too few points finished.
    """

    mechanism: str
    label: str
    points: tuple[Point, ...]
    hypervolume: dict[str, Interval | None]
    area: dict[str, Interval | None]


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


@dataclass(frozen=True)
class FrontierSummary:
    """Panels in the order of the spec, and what a reader must be told of (failed cells, mixed hardware, ...)."""

    panels: tuple[Panel, ...]
    warnings: tuple[str, ...] = ()


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
    summary: FrontierSummary
    hardware: tuple[dict[str, Any], ...]
    reproduce: tuple[str, ...]
    software: dict[str, str] = field(default_factory=dict)
