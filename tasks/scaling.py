"""How a cost grows with size: exponents of power laws with intervals, predictions that say when they extrapolate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from models.stream import Floats
from tasks.statistics import student_quantile
from tasks.summary import Interval

LEAST_SIZES = 3


@dataclass(frozen=True)
class PowerLaw:
    """cost = factor · size^exponent, fitted over the sizes low..high; residual: standard deviation of ln cost."""

    exponent: Interval
    factor: float
    low: float
    high: float
    residual: float

    def predict(self, size: float) -> tuple[float, bool]:
        """The cost at `size`, and whether that extrapolates beyond the sizes measured."""
        return self.factor * size**self.exponent.mean, not self.low <= size <= self.high


class TooFewSizesError(ValueError):
    """A fit was asked for that so few sizes cannot carry."""


def fit_power_law(sizes: ArrayLike, costs: ArrayLike) -> PowerLaw:
    """Fit ln cost = ln factor + exponent · ln size by least squares.

    sizes [N]; costs [N] of one series of measurements, or [S, N] of S independent ones (seeds). With S > 1 the exponent
    is the mean of S fits and its interval Student's t over them; with one, it is that of the regression's slope, from
    its residuals with N - 2 degrees of freedom. Measurements that are NaN are left out. Raises TooFewSizesError with
    fewer than three distinct sizes.
    """
    x, y = complete_series(sizes, costs, LEAST_SIZES)
    distinct = len(np.unique(x))
    slopes, intercepts, errors, residual = _least_squares(np.log(x), np.log(y))
    slope = float(slopes.mean())
    if len(slopes) > 1:
        half = student_quantile(len(slopes) - 1) * float(slopes.std(ddof=1)) / math.sqrt(len(slopes))
        method = f"Student t over the exponents of {len(slopes)} seeds, {distinct} sizes each"
    else:
        half = student_quantile(len(x) - 2) * float(errors[0])
        method = f"Student t of the slope over {distinct} sizes of one seed"
    exponent = Interval(slope, slope - half, slope + half, len(slopes), method)
    return PowerLaw(exponent, math.exp(float(intercepts.mean())), float(x.min()), float(x.max()), residual)


def complete_series(sizes: ArrayLike, costs: ArrayLike, least_sizes: int) -> tuple[Floats, Floats]:
    """Sizes [N], and costs [S, N] of the series that measured at all of them, one NaN making one incomplete.

    Raises TooFewSizesError unless `least_sizes` sizes differ, and ValueError for sizes or costs that are not above 0.
    """
    x = np.asarray(sizes, dtype=np.float64)
    y = np.atleast_2d(np.asarray(costs, dtype=np.float64))
    y = y[~np.isnan(y).any(axis=1)]
    distinct = len(np.unique(x)) if len(y) else 0
    if distinct < least_sizes:
        raise TooFewSizesError(f"a fit needs at least {least_sizes} sizes; there are {distinct}")
    if not ((x > 0).all() and (y > 0).all()):
        raise ValueError("a power law needs sizes and costs above 0")
    return x, y


def _least_squares(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats, float]:
    """Slope, intercept and the slope's standard error of each row of `y` [S, N], and the residuals' deviation."""
    centred = x - x.mean()
    spread = float(centred @ centred)
    slopes: Floats = (y - y.mean(axis=1, keepdims=True)) @ centred / spread
    intercepts: Floats = y.mean(axis=1) - slopes * x.mean()
    residuals = y - intercepts[:, None] - slopes[:, None] * x
    variance = (residuals**2).sum(axis=1) / max(len(x) - 2, 1)
    return slopes, intercepts, np.sqrt(variance / spread), float(np.sqrt(variance.mean()))
