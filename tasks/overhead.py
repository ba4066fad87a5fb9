"""Costs that grow as a power of size on top of a fixed overhead: cost = overhead + factor · size^exponent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from models.stream import Floats
from tasks.scaling import complete_series
from tasks.statistics import student_quantile
from tasks.summary import Interval

LEAST_SIZES = 4
"""Distinct sizes below which the three parameters leave nothing to judge the fit by."""

NEGLIGIBLE = 1e-6
"""Share of the least cost below which an overhead is what the search for it left over, and none."""

STEPS = 60

LARGEST_LOG = 709.0
"""Logarithm of about the largest number that there is."""


@dataclass(frozen=True)
class OffsetPowerLaw:
    """cost = overhead + factor · size^exponent, fitted over low..high; residual: standard deviation of ln cost.

    log_factor: the factor's logarithm, for steep laws have factors that no float holds.
    The overhead is exactly 0 where the best fit has none.
    """

    overhead: Interval
    log_factor: float
    exponent: Interval
    low: float
    high: float
    residual: float

    @property
    def factor(self) -> float:
        """The cost at size 1 beyond the overhead: 0, or the largest number, where it is beyond what floats hold."""
        return math.exp(min(self.log_factor, LARGEST_LOG))

    def predict(self, size: float) -> tuple[float, bool]:
        """The cost at `size`, and whether that extrapolates beyond the sizes measured."""
        grown = math.exp(min(self.log_factor + self.exponent.mean * math.log(size), LARGEST_LOG))
        return self.overhead.mean + grown, not self.low <= size <= self.high


def fit_offset_power_law(sizes: ArrayLike, costs: ArrayLike) -> OffsetPowerLaw:
    """Fit ln cost = ln(overhead + factor · size^exponent), overhead ≥ 0, by least squares.

    sizes [N]; costs [N], or [S, N] of S independent series (seeds), as for `fit_power_law`, which finds too small an
    exponent where there is an overhead. With S > 1 the fit is to the geometric means and its intervals are Student's t
    with the error of a jackknife that leaves out whole seeds (Miller 1974); with one, with that of the linearised
    regression and N - 3 degrees of freedom. Raises TooFewSizesError with fewer than four distinct sizes.
    """
    x, y = complete_series(sizes, costs, LEAST_SIZES)
    seeds, distinct = len(y), len(np.unique(x))
    middle = float(np.log(x).mean())
    fits, errors = estimate(np.log(x) - middle, np.log(y)[None])
    overhead, exponent = math.exp(fits[0, 0]), float(fits[0, 2])
    if overhead < NEGLIGIBLE * np.exp(np.log(y).mean(axis=0)).min():
        overhead = 0.0
    if seeds > 1:
        freedom, method = seeds - 1, f"Student t with jackknife error over {seeds} seeds, {distinct} sizes each"
    else:
        freedom, method = len(x) - 3, f"Student t of the linearised regression over {distinct} sizes of one seed"
    off, apart = (student_quantile(freedom) * errors[0]).tolist()
    residuals = np.log(y) - _curve(np.log(x) - middle, fits)
    return OffsetPowerLaw(
        overhead=Interval(overhead, max(0.0, overhead - off), overhead + off, seeds, method),
        log_factor=float(fits[0, 1]) - exponent * middle,
        exponent=Interval(exponent, exponent - apart, exponent + apart, seeds, method),
        low=float(x.min()),
        high=float(x.max()),
        residual=float(np.sqrt((residuals**2).sum() / (residuals.size - 3))),
    )


def estimate(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Fits [B, 3] to B cases `y` [B, S, N] of ln cost over ln size `x` [N], and errors [B, 2] of what matters.

    A fit is (ln overhead, ln factor, exponent); errors are standard errors of overhead and exponent.
    """
    cases, seeds, sizes = y.shape
    means = y.mean(axis=1, keepdims=True)
    if seeds == 1:
        fits = _fit(x, y[:, 0])
        return fits, _regression_errors(x, fits, y[:, 0] - _curve(x, fits))
    without = (seeds * means - y) / (seeds - 1)  # the means of all seeds but one
    fits = _fit(x, np.hstack([means, without]).reshape(-1, sizes)).reshape(cases, seeds + 1, 3)
    found = np.stack([np.exp(fits[:, 1:, 0]), fits[:, 1:, 2]], axis=-1)
    return fits[:, 0], found.std(axis=1) * math.sqrt(seeds - 1)


def _regression_errors(x: Floats, fits: Floats, residuals: Floats) -> Floats:
    """Standard errors [B, 2] of overhead and exponent from the curvature at each fit.

    By the overhead itself, for its logarithm has none to judge by where the overhead is nearly 0.
    """
    gradient = _gradient(x, fits)
    gradient[..., 0] = np.exp(-_curve(x, fits))
    scale = np.abs(gradient).max(axis=1)
    gradient /= scale[:, None]
    inverse = np.linalg.pinv(gradient.swapaxes(1, 2) @ gradient, hermitian=True)
    variance = (residuals**2).sum(axis=1) / (len(x) - 3)
    errors: Floats = np.sqrt(inverse[:, (0, 2), (0, 2)] * variance[:, None]) / scale[:, (0, 2)]
    return errors


def _fit(x: Floats, y: Floats) -> Floats:
    """Parameters [B, 3] (ln overhead, ln factor, exponent) that fit each row of `y` [B, N], ln cost over ln size `x`.

    Levenberg & Marquardt's steps for all rows at once, from an overhead that is most of the least cost, and from one
    that is nearly none; of the two, the better fit.
    """
    slope = (y - y.mean(axis=1, keepdims=True)) @ (x - x.mean()) / ((x - x.mean()) @ (x - x.mean()))
    least = y.min(axis=1)
    starts = [
        np.stack([least + np.log(share), y.mean(axis=1) - slope * x.mean(), slope], axis=1) for share in (0.7, 0.05)
    ]
    fits = _descend(x, np.vstack([y, y]), np.vstack(starts)).reshape(2, len(y), 3)
    losses = ((_curve(x, fits) - y) ** 2).sum(axis=-1)
    best: Floats = fits[losses.argmin(axis=0), np.arange(len(y))]
    return best


def _curve(x: Floats, parameters: Floats) -> Floats:
    """ln cost [..., N] over ln size."""
    overhead, factor, exponent = (parameters[..., i : i + 1] for i in range(3))
    return np.logaddexp(overhead, factor + exponent * x)


def _gradient(x: Floats, parameters: Floats) -> Floats:
    """Derivatives [B, N, 3] of ln cost by the parameters."""
    grown = np.exp(parameters[:, 1:2] + parameters[:, 2:3] * x - _curve(x, parameters))
    return np.stack([1.0 - grown, grown, grown * x], axis=-1)


def _descend(x: Floats, y: Floats, parameters: Floats) -> Floats:
    damping = np.full(len(y), 1e-2)
    residuals = y - _curve(x, parameters)
    loss = (residuals**2).sum(axis=1)
    for _ in range(STEPS):
        gradient = _gradient(x, parameters)
        turned = gradient.swapaxes(1, 2)
        normal = turned @ gradient
        normal += damping[:, None, None] * (normal + 1e-9) * np.eye(3)
        step = np.linalg.solve(normal, turned @ residuals[..., None])[..., 0]
        tried = y - _curve(x, parameters + step)
        better = (tried**2).sum(axis=1) < loss
        parameters, residuals = (
            np.where(better[:, None], new, old) for new, old in ((parameters + step, parameters), (tried, residuals))
        )
        gain = loss - (residuals**2).sum(axis=1)
        loss = loss - gain
        damping = np.clip(np.where(better, damping / 5, damping * 5), 1e-9, 1e12)
        if (np.where(better, gain <= 1e-10 * loss, damping > 1e6)).all():
            break
    return parameters
