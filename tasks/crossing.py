"""Where two costs cross as they grow: the size from which on the other of two things is the cheaper one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.stream import Floats
from tasks.overhead import estimate
from tasks.statistics import student_quantile
from tasks.summary import Interval

FARTHEST = 16.0
"""Laws are followed to so many times the largest size measured by both, and to that part of the smallest."""

STEPS = 4000


@dataclass(frozen=True)
class Growing:
    """One cost against size: sizes [N]; costs [S, N], all above 0, one row a seed.

    overhead: whether its law is overhead + factor · size^exponent, and not the power alone; that takes four sizes
    """

    sizes: Floats
    costs: Floats
    overhead: bool


@dataclass(frozen=True)
class Crossing:
    """A size at which two fitted laws cost the same.

    first_below   whether the first is the cheaper one below it
    extrapolated  whether it lies outside the sizes that both were measured at
    spans_all     whether its interval holds all of these: then nothing tells which is the cheaper at any of them
    """

    size: Interval
    first_below: bool
    extrapolated: bool
    spans_all: bool


def crossings(first: Growing, second: Growing) -> list[Crossing]:
    """Where the laws of two costs cross, by rising size; rows of costs are paired by seed.

    Laws are fitted by least squares to ln cost, means over seeds. The interval is Student's t about the logarithm of
    the size, with the error of a jackknife that leaves out a seed of both (Miller 1974).
    """
    if len(first.costs) != len(second.costs):
        raise ValueError(f"seeds are paired: {len(first.costs)} and {len(second.costs)} cannot be")
    low, high = max(first.sizes.min(), second.sizes.min()), min(first.sizes.max(), second.sizes.max())
    middle = 0.5 * math.log(low * high)
    at = np.linspace(math.log(low / FARTHEST), math.log(high * FARTHEST), STEPS)
    gaps = _followed(first, at, middle) - _followed(second, at, middle)
    found = [_roots(at, gap) for gap in gaps]
    roots = [(root, _interval(root, found[1:])) for root in found[0].tolist()]
    return [
        Crossing(
            size=size,
            first_below=bool(np.interp(root - (at[1] - at[0]), at, gaps[0]) < 0),
            extrapolated=not low <= math.exp(root) <= high,
            spans_all=size.low is not None and size.high is not None and size.low <= low and high <= size.high,
        )
        for root, size in roots
    ]


def _followed(cost: Growing, at: Floats, middle: float) -> Floats:
    """ln cost [1 + S, T] at ln sizes `at` [T] by the law of all seeds, and by that of all but each."""
    x, y = np.log(cost.sizes) - middle, np.log(cost.costs)
    seeds = len(y)
    without = (y.sum(axis=0) - y) / (seeds - 1) if seeds > 1 else y[:0]
    means = np.vstack([y.mean(axis=0), without])
    if cost.overhead:
        laws = estimate(x, means[:, None])[0]
    else:
        slopes, intercepts = np.polyfit(x, means.T, 1)
        laws = np.stack([np.full(len(means), -np.inf), intercepts, slopes], axis=1)
    overhead, factor, exponent = (laws[:, i : i + 1] for i in range(3))
    followed: Floats = np.logaddexp(overhead, factor + exponent * (at - middle))
    return followed


def _roots(at: Floats, gap: Floats) -> Floats:
    """Where `gap` changes its sign, by rising place."""
    (before,) = np.nonzero(np.sign(gap[:-1]) * np.sign(gap[1:]) < 0)
    share = gap[before] / (gap[before] - gap[before + 1])
    roots: Floats = at[before] + share * (at[before + 1] - at[before])
    return roots


def _interval(root: float, without: list[Floats]) -> Interval:
    """About the crossing at ln size `root`; `without`: crossings where each seed is left out, if there are several."""
    size, seeds = math.exp(root), len(without)
    if not seeds:
        return Interval(size, None, None, 1, "undefined: one seed")
    if not all(len(roots) for roots in without):
        return Interval(size, None, None, seeds, "undefined: without some seed they do not cross")
    nearest = np.array([roots[np.abs(roots - root).argmin()] for roots in without])
    half = student_quantile(seeds - 1) * float(nearest.std()) * math.sqrt(seeds - 1)
    low, high = math.exp(root - half), math.exp(min(root + half, 700.0))
    return Interval(size, low, high, seeds, f"Student t with jackknife error of ln size over {seeds} seeds")
