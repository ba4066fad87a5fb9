"""Intervals from resampled seeds: means by BCa, and statistics of curves with seeds kept paired."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from models.stream import Floats
from tasks.statistics import UNDEFINED, mean_interval, student_quantile
from tasks.summary import Interval

RESAMPLES = 1000

MEAN_RESAMPLES = 10_000
"""Resamples of a mean: with few seeds its limits lie far out in the tails of the bootstrap distribution."""

LEAST_SEEDS = 6
"""Seeds below which no interval by resampling is given: it cannot leave the range of the values, and the range of n
values covers their median with probability 1 - 2^(1 - n), which is under 95% for n < 6."""


def bca_interval(
    values: ArrayLike,
    rng: np.random.Generator,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    outcomes: int | None = None,
) -> Interval:
    """Mean of `values` [n], one a seed, with its 95% interval by BCa bootstrap: `bca_intervals` of one column.

    bounds, outcomes: as in `mean_interval`, which also takes over where all values are equal. Raises ValueError for no
    values or values that are not finite.
    """
    plain = mean_interval(values, bounds=bounds, outcomes=outcomes)
    if plain.n < LEAST_SEEDS:
        few = UNDEFINED if plain.n < 2 else f"undefined: {plain.n} seeds are too few to resample, {LEAST_SEEDS} are not"
        return Interval(plain.mean, None, None, plain.n, few)
    sample = np.asarray(values, dtype=np.float64)
    if sample.min() == sample.max():
        return plain
    low, high = bca_limits(sample[:, None], rng)
    method = f"BCa bootstrap over {plain.n} seeds, expanded, {MEAN_RESAMPLES} resamples"
    return Interval(plain.mean, max(bounds[0], float(low[0])), min(bounds[1], float(high[0])), plain.n, method)


def bca_limits(values: Floats, rng: np.random.Generator, resamples: int = MEAN_RESAMPLES) -> tuple[Floats, Floats]:
    """Ends [P] of 95% intervals of the means of the columns of `values` [n, P], none of which is constant.

    Bias-corrected and accelerated (Efron 1987), and expanded for small samples (Hesterberg 2015, §5.3): resampling n
    values shows √((n - 1) / n) of their spread, and a normal quantile forgets that the spread is itself estimated, so
    Student's t · √(n / (n - 1)) stands in its place. All columns share the resamples.
    """
    from scipy.special import ndtr, ndtri

    n = len(values)
    means = values.mean(axis=0)
    resampled = np.sort(_multinomial(n, resamples, rng) / n @ values, axis=0)
    below = ((resampled < means).sum(axis=0) + 0.5 * (resampled == means).sum(axis=0)) / resamples
    bias = ndtri(np.clip(below, 0.5 / resamples, 1 - 0.5 / resamples))
    centred = values - means
    acceleration = (centred**3).sum(axis=0) / (6.0 * (centred**2).sum(axis=0) ** 1.5)
    reach = student_quantile(n - 1) * math.sqrt(n / (n - 1))
    ends = []
    for z in (bias - reach, bias + reach):
        share = ndtr(bias + z / (1.0 - acceleration * z))
        ends.append(_quantiles(resampled, share))
    return ends[0], ends[1]


def _quantiles(rising: Floats, shares: Floats) -> Floats:
    """The quantile at `shares` [P] of each column of `rising` [R, P], interpolated linearly."""
    place = shares * (len(rising) - 1)
    lower = np.floor(place).astype(np.int64)
    upper = np.minimum(lower + 1, len(rising) - 1)
    columns = np.arange(rising.shape[1])
    left, right = rising[lower, columns], rising[upper, columns]
    quantiles: Floats = left + (place - lower) * (right - left)
    return quantiles


def _multinomial(seeds: int, resamples: int, rng: np.random.Generator) -> Floats:
    """How often each seed is drawn in each resample [R, seeds]."""
    return rng.multinomial(seeds, np.full(seeds, 1.0 / seeds), size=resamples).astype(np.float64)


@dataclass(frozen=True)
class CurveSample:
    """Size and recall of the points of one curve for every seed [S, P], NaN where a trial is missing."""

    sizes: Floats
    recalls: Floats


@dataclass(frozen=True)
class Bootstrap:
    """A statistic of a curve: its value on the means over all seeds, and on those of every resample [R].

    seeds: how many the curve has any trial of; a resample without any of them is NaN
    """

    value: float
    resampled: Floats
    seeds: int

    def minus(self, other: Bootstrap) -> Bootstrap:
        """The difference of two statistics that were resampled together."""
        return Bootstrap(self.value - other.value, self.resampled - other.resampled, min(self.seeds, other.seeds))

    def interval(self, bounds: tuple[float, float] = (-np.inf, np.inf)) -> Interval:
        """95% Student t interval with the bootstrap's standard error, cut at `bounds` (Hesterberg 2015).

        Resampling n seeds shows √((n - 1) / n) of their spread, for which the error is corrected. With 2 or 3 seeds,
        percentiles of the resamples would cover far less than they claim.
        """
        n = self.seeds
        if n < 2:
            return Interval(self.value, None, None, n, UNDEFINED)
        error = float(np.nanstd(self.resampled, ddof=1)) * math.sqrt(n / (n - 1))
        if error < 1e-12:
            return Interval(self.value, self.value, self.value, n, f"no spread: all resamples of {n} seeds are equal")
        half = student_quantile(n - 1) * error
        low, high = max(bounds[0], self.value - half), min(bounds[1], self.value + half)
        method = f"Student t with bootstrap error over {n} paired seeds, {len(self.resampled)} resamples"
        return Interval(self.value, low, high, n, method)


def paired_bootstrap(
    curves: Sequence[CurveSample], statistic: Callable[[Floats, Floats], Floats], rng: np.random.Generator
) -> list[Bootstrap]:
    """Resample seeds, the same for every curve, and take `statistic`(mean sizes [R, P], mean recalls [R, P]) -> [R].

    All curves have the same S seeds in the same order. A point's mean is over the seeds it has; a resample with none of
    them lacks the point. A statistic that takes the best of noisy points flatters curves with many points; pairing does
    not remove that, more seeds do.
    """
    seeds = len(curves[0].sizes)
    weights = np.concatenate([np.ones((1, seeds)), _multinomial(seeds, RESAMPLES, rng)])
    results = []
    for curve in curves:
        sizes, recalls = weighted_means(curve.sizes, weights), weighted_means(curve.recalls, weights)
        values = np.where(np.isnan(sizes + recalls).all(axis=1), np.nan, statistic(sizes, recalls))
        present = int((~np.isnan(curve.sizes + curve.recalls)).any(axis=1).sum())
        results.append(Bootstrap(float(values[0]), values[1:], present))
    return results


def weighted_means(values: Floats, weights: Floats) -> Floats:
    """Means [R, P] of `values` [S, P] under each row of `weights` [R, S], over the values that are not NaN."""
    present = ~np.isnan(values)
    totals = weights @ present
    sums: Floats = weights @ np.where(present, values, 0.0)
    return np.divide(sums, totals, out=np.full_like(sums, np.nan), where=totals > 0)
