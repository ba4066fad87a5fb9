"""Aggregates over cells and studies that neither easy nor hopeless ones decide: interquartile means and medians."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from models.stream import Floats
from tasks.bootstrap import LEAST_SEEDS, RESAMPLES, Bootstrap
from tasks.statistics import CONFIDENCE
from tasks.summary import Interval


def interquartile_mean(values: Floats) -> Floats:
    """Mean [...] of the middle half of `values` [..., K], a quarter being cut off at either end, rounded down."""
    cut = values.shape[-1] // 4
    mean: Floats = np.sort(values, axis=-1)[..., cut : values.shape[-1] - cut].mean(axis=-1)
    return mean


def interquartile_interval(
    values: Floats,
    rng: np.random.Generator,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    resamples: int = RESAMPLES,
) -> Interval:
    """Interquartile mean of `values` [n seeds, C cells] with its 95% interval (Agarwal et al. 2021).

    A bootstrap stratified by cell: each resample has n values of every cell. Cells share seeds, and a seed may be hard
    for all of them, so it is drawn for all of them at once; drawn cell by cell, as where runs have nothing in common,
    intervals of such cells would be far too narrow. The interval is cut at `bounds`, what a value can be. Raises
    ValueError for values that are missing or not finite.
    """
    n, cells = values.shape
    if not values.size or not np.isfinite(values).all():
        raise ValueError(f"an interquartile mean needs a finite value for every seed and cell; got {values!r}")
    resampled = values[rng.integers(n, size=(resamples, n))].reshape(resamples, -1)
    bootstrap = Bootstrap(float(interquartile_mean(values.ravel())), interquartile_mean(resampled), n)
    interval = bootstrap.interval(bounds)
    return replace(interval, method=f"interquartile mean of {cells} cells, {interval.method}")


def median_interval(values: ArrayLike, noun: str = "seeds") -> Interval:
    """Median of `values` [n] with its 95% interval between two of them, interpolated (Hettmansperger & Sheather 1986).

    It holds for any continuous distribution. A bootstrap of the median would cover 87 to 95% for 6 to 20 values, as it
    resamples very few distinct medians. No interval for n < 6, whose range covers less than 95%. `noun` is the plural
    of what the values are of. Raises ValueError for no values or values that are not finite.
    """
    from scipy.special import bdtr

    rising = np.sort(np.asarray(values, dtype=np.float64))
    n = len(rising)
    if not n or not np.isfinite(rising).all():
        raise ValueError(f"a median needs finite values; got {rising!r}")
    median = float(np.median(rising))
    if n < LEAST_SEEDS:
        return Interval(median, None, None, n, f"undefined: {n} {noun} are too few for a median, {LEAST_SEEDS} are not")
    covered = 1.0 - 2.0 * bdtr(np.arange((n + 1) // 2), n, 0.5)  # by the ends of which k values are cut off
    k = int(np.flatnonzero(covered >= CONFIDENCE)[-1])
    below = covered[k + 1] if k + 1 < len(covered) else 0.0
    surplus = (covered[k] - CONFIDENCE) / (covered[k] - below)
    share = (n - k - 1) * surplus / (k + 1 + (n - 2 * k - 2) * surplus)
    low = rising[k] + share * (rising[k + 1] - rising[k])
    high = rising[n - 1 - k] - share * (rising[n - 1 - k] - rising[n - 2 - k])
    return Interval(median, float(low), float(high), n, f"median of {n} {noun} between ordered values, interpolated")
