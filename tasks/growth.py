"""How the number of distinct items grows with the logarithm of time, as in a Chinese restaurant process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from models.stream import Floats
from tasks.bootstrap import bca_interval
from tasks.scaling import LEAST_SIZES, TooFewSizesError
from tasks.summary import Interval


@dataclass(frozen=True)
class LogGrowth:
    """items = offset + slope · ln tokens, fitted over low..high tokens."""

    slope: Interval
    offset: float
    low: float
    high: float

    def predict(self, tokens: float) -> tuple[float, bool]:
        """Items among so many tokens, and whether that extrapolates beyond those seen."""
        return self.offset + self.slope.mean * float(np.log(tokens)), not self.low <= tokens <= self.high


def fit_log_growth(tokens: ArrayLike, items: ArrayLike, rng: np.random.Generator) -> LogGrowth:
    """Fit items [R runs, N] = offset + slope · ln tokens [N] by least squares.

    Counts within a run depend on each other, so whole runs are resampled: the slope of a mean of runs is the mean of
    their slopes, and its interval is `bca_interval` of those. In a Chinese restaurant process the slope is α for tokens
    ≥ 100 α (Antoniak 1974); over fewer it is smaller, as α ln(1 + tokens / α) bends. Raises TooFewSizesError with fewer
    than three distinct numbers of tokens.
    """
    n, counts = np.asarray(tokens, dtype=np.float64), np.atleast_2d(np.asarray(items, dtype=np.float64))
    if len(np.unique(n)) < LEAST_SIZES:
        raise TooFewSizesError(f"a fit needs at least {LEAST_SIZES} sizes; there are {len(np.unique(n))}")
    if not ((n > 0).all() and counts.size and np.isfinite(counts).all()):
        raise ValueError("growth needs tokens above 0, and finite counts of at least one run")
    slope = bca_interval(log_slopes(n, counts), rng)
    offset = float(counts.mean() - slope.mean * np.log(n).mean())
    return LogGrowth(slope, offset, float(n.min()), float(n.max()))


def log_slopes(tokens: Floats, items: Floats) -> Floats:
    """Least-squares slopes [...] of `items` [..., N] against ln `tokens` [N]; exactly 0 where items do not change."""
    x = np.log(tokens) - np.log(tokens).mean()
    slopes: Floats = (items - items.mean(axis=-1, keepdims=True)) @ x / (x @ x)
    return slopes
