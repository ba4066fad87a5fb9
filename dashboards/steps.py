"""Curves read as steps: the best recall a mechanism reaches at or under each measured size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from dashboards.text import finite
from tasks.staircase import on_frontier
from tasks.summary import Curve, Interval, Panel, Point

RECALLS = ("recall", "recall_all")

SAME_SIZE = 1.05
"""Sizes within this ratio share a column of the table of matched sizes."""

MOST_CHECKPOINTS = 8

MOST_IN_FRONT = 12
"""Memories up to which a figure shows all alike: colours and marks of more cannot be told apart."""


@dataclass(frozen=True)
class Measured:
    """A point that has a size on the axis in question and a recall. `number` is its place in the curve."""

    number: int
    point: Point
    size: Interval
    recall: Interval


def metric_of(point: Point, name: str) -> Interval | None:
    """The interval of `name`, or None where no seed finished or the mean is not a finite number."""
    return finite(point.metrics.get(name))


def measured(curve: Curve, axis: str, metric: str) -> list[Measured]:
    """The points of `curve` that can be drawn, by rising size, then by falling recall."""
    found = []
    for number, point in enumerate(curve.points):
        size, recall = metric_of(point, axis), metric_of(point, metric)
        if size is not None and recall is not None:
            found.append(Measured(number, point, size, recall))
    return sorted(found, key=lambda entry: (entry.size.mean, -entry.recall.mean))


def frontier(entries: Sequence[Measured], axis: str, metric: str) -> list[Measured]:
    """The entries on the curve's frontier, in the order given.

    For `recall` the points say so themselves (`Point.on_frontier`); for `recall_all` the same rule is applied here.
    """
    if metric == "recall":
        return [entry for entry in entries if entry.point.on_frontier.get(axis, False)]
    kept = on_frontier([entry.size.mean for entry in entries], [entry.recall.mean for entry in entries])
    return [entry for entry, keep in zip(entries, kept, strict=True) if keep]


def best_within(entries: Iterable[Measured], size: float) -> Measured | None:
    """The entry of best mean recall at or under `size`, the smaller of equals; None if the curve starts above it."""
    best: Measured | None = None
    for entry in entries:
        if entry.size.mean <= size and (best is None or entry.recall.mean > best.recall.mean):
            best = entry
    return best


def smallest_reaching(entries: Iterable[Measured], target: float) -> Measured | None:
    """The entry of smallest size whose mean recall is at least `target`."""
    return next((entry for entry in entries if entry.recall.mean >= target), None)


def recalls_of(panel: Panel) -> tuple[str, ...]:
    """The recall metrics that at least one point of `panel` has."""
    points = [point for curve in panel.curves for point in curve.points]
    return tuple(name for name in RECALLS if any(metric_of(point, name) for point in points))


def in_front(panel: Panel) -> frozenset[str]:
    """Labels of the memories that figures of `panel` show in colour; bounds and states of fixed size look otherwise.

    All where they are few; else those that no other memory beats at some size, on one of the panel's axes.
    """
    memories = [curve for curve in panel.curves if curve.role == "memory"]
    if len(memories) <= MOST_IN_FRONT:
        return frozenset(curve.label for curve in memories)
    leading = set()
    for axis, metric in product(panel.axes, recalls_of(panel)):
        entries = [(curve.label, entry) for curve in memories for entry in measured(curve, axis, metric)]
        kept = on_frontier([one.size.mean for _, one in entries], [one.recall.mean for _, one in entries])
        leading |= {label for (label, _), keep in zip(entries, kept, strict=True) if keep}
    return frozenset(leading)


def checkpoints(panel: Panel, axis: str, metric: str) -> tuple[float, ...]:
    """Sizes at which curves are compared: measured ones, at most eight, where most curves have a point.

    Measured sizes within 5% of each other count as one, and the largest of them stands for all, so that a budget of 64
    and a memory that holds 64.03 slots are compared at 64.03.
    """
    sizes = sorted((entry.size.mean, curve.label) for curve in panel.curves for entry in measured(curve, axis, metric))
    groups: list[list[tuple[float, str]]] = []
    for size, label in sizes:
        if groups and size <= groups[-1][0][0] * SAME_SIZE:
            groups[-1].append((size, label))
        else:
            groups.append([(size, label)])
    by_support = sorted(groups, key=lambda group: -len({label for _, label in group}))[:MOST_CHECKPOINTS]
    return tuple(sorted(group[-1][0] for group in by_support))
