"""Geometry of recall against size: the staircase, its frontier and knee, its hypervolume and the area under it.

A staircase F(b) is the best recall reachable at a size of at most b. The functions that a bootstrap calls take arrays
of any leading shape, with the points of one curve along the last axis; a point with a NaN does not exist.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from models.config import round_number
from models.stream import Floats


def staircase(sizes: ArrayLike, recalls: ArrayLike) -> tuple[Floats, Floats]:
    """Points [..., P] by rising size, and the best recall [..., P] at or under each (arXiv 2607.09889, §3.1).

    Points that do not exist come last, at an infinite size, and add no recall. Recall before the first is 0.
    """
    absent = np.isnan(sizes) | np.isnan(recalls)
    size: Floats = np.where(absent, np.inf, sizes)
    recall: Floats = np.where(absent, 0.0, recalls)
    order = np.argsort(size, axis=-1, kind="stable")
    best = np.maximum.accumulate(np.take_along_axis(recall, order, axis=-1), axis=-1)
    return np.take_along_axis(size, order, axis=-1), best


def on_frontier(sizes: Sequence[float], recalls: Sequence[float]) -> list[bool]:
    """Whether each point is undominated: no other has at least its recall at no larger size, one of both being better.

    Equal points are all kept. Numbers are compared at 12 significant digits, because means over seeds carry rounding
    errors that would break ties at random. A point with a NaN is on no frontier.
    """
    points = [(round_number(size), -round_number(recall)) for size, recall in zip(sizes, recalls, strict=True)]
    present = {point for point in points if not math.isnan(sum(point))}
    frontier: set[tuple[float, float]] = set()
    least = math.inf
    for size, loss in sorted(present):
        if loss < least:
            frontier.add((size, loss))
            least = loss
    return [point in frontier for point in points]


def knee(sizes: Sequence[float], recalls: Sequence[float]) -> int | None:
    """Index of the point of the frontier after which more size buys less: the farthest above the line between its ends.

    Distances are taken over log2 size and recall, both scaled to 0..1 (Das 1999; Kneedle, Satopää et al. 2011, without
    smoothing). Of equal points the first counts, of equal distances the smaller size. None where fewer than three
    points of a size above 0 are on the frontier, or none lies above the line.
    """
    frontier = on_frontier(sizes, recalls)
    kept = {(sizes[i], recalls[i]): i for i in reversed(range(len(sizes))) if frontier[i] and sizes[i] > 0}
    if len(kept) < 3:
        return None
    points = sorted(kept)
    x, y = np.log2([size for size, _ in points]), np.array([recall for _, recall in points])
    above = (y - y[0]) / (y[-1] - y[0]) - (x - x[0]) / (x[-1] - x[0])
    farthest = int(np.argmax(above))
    return kept[points[farthest]] if above[farthest] > 1e-12 else None


def hypervolume(points: ArrayLike, reference: ArrayLike) -> float:
    """Volume that `points` [P, M], all objectives minimised, dominate up to `reference` [M] (Zitzler & Thiele 1999).

    What lies beyond the reference adds nothing; no points at all give 0.
    """
    import moocore

    losses = np.asarray(points, dtype=np.float64)
    return float(moocore.hypervolume(losses, ref=np.asarray(reference, dtype=np.float64))) if losses.size else 0.0


def hypervolume_history(points: ArrayLike, reference: ArrayLike) -> Floats:
    """`hypervolume` [T] of the first 1, 2, ..., T of `points` [T, M]; one with a NaN (a failed trial) adds none."""
    losses, bound = np.asarray(points, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    front = np.empty((0, len(bound)))
    volumes = np.zeros(len(losses))
    volume = 0.0
    for trial, loss in enumerate(losses):
        if (loss < bound).all() and not (front <= loss).all(axis=1).any():
            front = np.vstack([front[~(front >= loss).all(axis=1)], loss])
            volume = hypervolume(front, bound)
        volumes[trial] = volume
    return volumes


def hypervolume_under(sizes: ArrayLike, recalls: ArrayLike, reference: float) -> Floats:
    """`hypervolume` of (size / reference, 1 - recall) up to (1, 1), for many curves [..., P] at once."""
    steps, best = staircase(sizes, recalls)
    edges = np.minimum(steps / reference, 1.0)
    area: Floats = np.sum(best * np.diff(edges, axis=-1, append=1.0), axis=-1)
    return area


def area_under_curve(sizes: ArrayLike, recalls: ArrayLike, low: float, high: float) -> Floats:
    """Mean of F(b) over log2 b in low..high: ∫ F d(log2 b) / (log2 high - log2 low), for curves [..., P].

    F is a step that keeps its value from one size up to the next. Below a curve's smallest size F is 0: there is no
    such memory. Raises ValueError unless 0 < low < high.
    """
    if not 0 < low < high < np.inf:
        raise ValueError(f"an area needs a range of sizes 0 < low < high; got {low} and {high}")
    steps, best = staircase(sizes, recalls)
    edges = np.log2(np.clip(steps, low, high))
    area: Floats = np.sum(best * np.diff(edges, axis=-1, append=np.log2(high)), axis=-1) / np.log2(high / low)
    return area
