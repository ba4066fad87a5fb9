"""Intervals over seeds: means, paired differences, and tests of equality."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from models.stream import Floats, Ints
from tasks.summary import Interval

CONFIDENCE = 0.95
UNDEFINED: Final = "undefined: one seed"

Sample = Mapping[int, float]
"""Seed -> value."""

DIGITS = 12
"""Significant digits of two values that their difference is taken at: what is behind them is rounding."""


def mean_interval(
    values: ArrayLike, *, bounds: tuple[float, float] = (-np.inf, np.inf), outcomes: int | None = None
) -> Interval:
    """Mean of `values` [n], one a seed, with its 95% interval: `mean_intervals` of one column.

    Raises ValueError for no values or values that are not finite.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or not sample.size or not np.isfinite(sample).all():
        raise ValueError(f"a mean over seeds needs finite values [n], n ≥ 1; got {sample!r}")
    (interval,) = mean_intervals(sample[:, None], bounds=bounds, outcomes=outcomes)
    assert interval is not None
    return interval


def mean_intervals(
    values: Floats, *, bounds: tuple[float, float] = (-np.inf, np.inf), outcomes: int | None = None
) -> list[Interval | None]:
    """Means of the columns of `values` [S seeds, P] with 95% Student t intervals; NaN is a missing seed.

    bounds    what a value can be; limits are cut there, which costs no coverage
    outcomes  how many independent outcomes in 0..1 each value is the mean of, where that is known

    Values that are all equal have no spread to judge by. If they are all 0 or all 1 and `outcomes` is known, the
    interval is the exact binomial one (Clopper & Pearson 1934) for n · outcomes outcomes; it holds for any outcomes in
    0..1, because their mean is off 0 (or 1) by no more than the share of them that is. Otherwise it has no width, and
    `method` says so. One value has no interval, and a column without values gives None.
    """
    present = ~np.isnan(values)
    counts, means = column_means(values)
    squares = np.where(present, values - means, 0.0) ** 2
    errors = np.sqrt(squares.sum(axis=0) / np.maximum(counts - 1, 1) / np.maximum(counts, 1))
    smallest = np.where(present, values, np.inf).min(axis=0, initial=np.inf)
    largest = np.where(present, values, -np.inf).max(axis=0, initial=-np.inf)

    intervals: list[Interval | None] = []
    columns = zip(*(a.tolist() for a in (counts, means, errors, smallest, largest)), strict=True)
    for n, mean, error, least, most in columns:
        if n == 0:
            intervals.append(None)
        elif n == 1:
            intervals.append(Interval(least, None, None, n, UNDEFINED))
        elif least == most:
            intervals.append(_without_spread(least, n, outcomes))
        else:
            half = student_quantile(n - 1) * error
            low, high = max(bounds[0], mean - half), min(bounds[1], mean + half)
            intervals.append(Interval(mean, low, high, n, f"Student t over {n} seeds"))
    return intervals


def column_means(values: Floats) -> tuple[Ints, Floats]:
    """How many of each column of `values` [S, P] are not NaN, and their mean, NaN for none.

    Equal columns give equal bits, which a matrix product would not.
    """
    present = ~np.isnan(values)
    counts = present.sum(axis=0)
    sums = np.where(present, values, 0.0).sum(axis=0)
    return counts, np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)


def _without_spread(value: float, n: int, outcomes: int | None) -> Interval:
    if outcomes is None or value not in (0.0, 1.0):
        return Interval(value, value, value, n, f"no spread: all {n} seeds are equal")
    unlike = binomial_limit(n * outcomes)
    low, high = (1.0 - unlike, 1.0) if value == 1.0 else (0.0, unlike)
    return Interval(value, low, high, n, f"exact binomial over {n * outcomes} episodes: all {n} seeds are equal")


def binomial_limit(outcomes: int) -> float:
    """Upper limit of the two-sided 95% Clopper-Pearson interval for a share, when none of `outcomes` was seen."""
    return float(1.0 - ((1.0 - CONFIDENCE) / 2.0) ** (1.0 / outcomes))


@lru_cache
def student_quantile(freedom: int) -> float:
    """Half width of a 95% Student t interval, in standard errors."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1.0 + CONFIDENCE) / 2.0))


def paired_values(a: Sample, b: Sample) -> Floats:
    """a - b [n] over the n seeds they share, by rising seed; differences of equal size are equal to the last bit.

    Raises ValueError if they share none.
    """
    seeds = sorted(a.keys() & b.keys())
    if not seeds:
        raise ValueError("a paired difference needs seeds that both sides have")
    pairs = np.array([(a[seed], b[seed]) for seed in seeds], dtype=np.float64)
    largest = float(np.abs(pairs).max())
    digits = DIGITS - math.ceil(math.log10(largest)) if 0.0 < largest < np.inf else DIGITS
    differences: Floats = np.round(pairs[:, 0] - pairs[:, 1], digits)
    return differences


def deviation(values: Floats) -> float:
    """Standard deviation of `values` [n], n ≥ 2; exactly 0 where all are equal."""
    return 0.0 if values.min() == values.max() else float(values.std(ddof=1))


def paired_difference(a: Sample, b: Sample, outcomes: int | None = None) -> Interval:
    """Mean of a - b over the seeds they share, with its 95% interval. Raises ValueError if they share none.

    outcomes: how many independent outcomes in 0..1 each value is the mean of, where that is known. If no seed differs,
    no outcome is taken to, and the interval ends at the exact binomial limit of the share that does (see
    `binomial_limit`), which a difference of means cannot exceed.
    """
    differences = paired_values(a, b)
    interval = mean_interval(differences)
    if outcomes is not None and len(differences) > 1 and not differences.any():
        count = len(differences) * outcomes
        limit = binomial_limit(count)
        interval = Interval(
            0.0, -limit, limit, len(differences), f"exact binomial over {count} episodes, none of which differs"
        )
    alone = len(a.keys() ^ b.keys())
    remark = f"; {alone} seeds of one side only left out" if alone else ""
    return Interval(
        interval.mean, interval.low, interval.high, interval.n, f"paired by seed, {interval.method}{remark}"
    )


@dataclass(frozen=True)
class Equivalence:
    """Whether two things are equal to within a margin.

    difference  the paired difference, with the 95% interval
    p           the larger of the two one-sided p-values; None where undefined: one seed, or differences that are all 0
    equal       whether p < 0.05, so the 90% interval of the difference lies inside ±margin; None where undefined
    """

    difference: Interval
    margin: float
    p: float | None
    equal: bool | None
    method: str


def equivalence(a: Sample, b: Sample, margin: float, outcomes: int | None = None) -> Equivalence:
    """Two one-sided t-tests of |mean(a - b)| ≥ margin over common seeds, at 5% (Schuirmann 1987).

    If no seed differs and `outcomes` (see `paired_difference`) are known, the test is the exact binomial one of a share
    of `margin` or more that differs, of which none was seen. Raises ValueError unless margin > 0, or if there is no
    common seed.
    """
    if not margin > 0:
        raise ValueError(f"an equivalence test needs a margin > 0; got {margin}")
    difference = paired_difference(a, b, outcomes)
    n = difference.n
    method = f"two one-sided t-tests, paired by {n} seeds, margin {margin:g}"
    if n < 2:
        return Equivalence(difference, margin, None, None, UNDEFINED)
    if outcomes is not None and difference.mean == 0.0 and not paired_values(a, b).any():
        p = (1.0 - min(margin, 1.0)) ** (n * outcomes)
        method = f"exact binomial test over {n * outcomes} episodes, none of which differs, margin {margin:g}"
        return Equivalence(difference, margin, p, p < 1.0 - CONFIDENCE, method)
    error = deviation(paired_values(a, b)) / math.sqrt(n)
    p = _one_sided(margin - abs(difference.mean), error, n - 1)
    return Equivalence(difference, margin, p, p < 1.0 - CONFIDENCE, method)


def _one_sided(distance: float, error: float, freedom: int) -> float:
    """P-value of a mean that lies `distance` inside its bound, with standard error `error`."""
    from scipy.special import stdtr

    if error == 0.0:
        return 0.0 if distance > 0 else 1.0
    return float(stdtr(freedom, -distance / error))
