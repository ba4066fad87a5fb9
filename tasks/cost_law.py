"""What something will cost, from what similar things cost: a regression of logarithms that says how sure it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from models.stream import Floats

Sizes = Mapping[str, float | str]
"""What sets a cost: numbers above 0, whose powers multiply, and words, each a factor of its own; by name."""

EXPONENTS = {
    "tokens": (0.9, 0.25),
    "dim": (0.5, 0.5),
    "episodes": (1.0, 0.1),
    "seeds": (0.8, 0.3),
    "steps": (1.0, 0.3),
}
"""What is believed of exponents before anything was measured: mean and standard deviation."""

OTHER_EXPONENT = (0.0, 0.4)
FACTOR = (0.0, 0.7)
"""The same of other numbers' exponents, and of the logarithm of a word's factor."""

SCATTER, SCATTER_WEIGHT = 0.4, 2.0
"""Deviation of ln cost that is believed in before any was seen, and how many measurements this belief is worth."""

ROUNDS = 4


@dataclass(frozen=True)
class Prediction:
    """Predicted costs.

    each     [M]    expected cost of each; deviations [M]: their standard deviations
    total           expected cost of all, each times its weight
    deviation       standard deviation of `total`, from what is not known of the law and from scatter about it
    beyond          names of sizes that lie outside what was measured
    """

    each: Floats
    deviations: Floats
    total: float
    deviation: float
    beyond: tuple[str, ...]


def predict_costs(
    measured: Sequence[Sizes], costs: ArrayLike, wanted: Sequence[Sizes], weights: ArrayLike, doubt: float = 1.0
) -> Prediction:
    """Costs of `wanted` [M], from those of `measured` [N], N ≥ 1.

    costs [N]: above 0; weights [M]: how often each of `wanted` is paid for
    doubt: how far costs of this sort stray from what is usual, of how far times do

    ln cost is linear in the logarithms of sizes and in indicators of words. Coefficients have normal priors (above), so
    that a size which was never varied is extrapolated by what is usual, and less surely; the scatter about the law is
    estimated along with them (MacKay 1992, with an inverse-gamma prior). A size that something lacks counts as average.
    """
    logs = np.log(np.asarray(costs, dtype=np.float64))
    names = sorted({key for sizes in (*measured, *wanted) for key in _features(sizes)})
    known, asked = _table(measured, names), _table(wanted, names)
    numeric = np.array(["=" not in name for name in names], dtype=bool)
    centre = np.where(numeric, _means(known), 0.0)
    x, new = (np.column_stack([np.ones(len(t)), np.nan_to_num(t - centre)]) for t in (known, asked))
    priors = [EXPONENTS.get(name, OTHER_EXPONENT) if "=" not in name else FACTOR for name in names]
    prior = np.array([(logs.mean(), 3.0), *priors], dtype=np.float64)
    prior[1:, 1] *= doubt
    coefficients, covariance, scatter = _posterior(x, logs, prior, (doubt * SCATTER) ** 2)

    each = np.exp(np.minimum(new @ coefficients + scatter / 2, 500.0))
    paid = each * np.asarray(weights, dtype=np.float64)
    slope = paid @ new
    variance = float(slope @ covariance @ slope) + float((paid**2).sum() * math.expm1(scatter))
    deviations = each * np.sqrt(((new @ covariance) * new).sum(axis=1) + math.expm1(scatter))
    return Prediction(each, deviations, float(paid.sum()), math.sqrt(variance), _beyond(names, known, asked))


def _features(sizes: Sizes) -> dict[str, float]:
    """Logarithms of numbers by name, and 1 for each `name=word`."""
    return {
        f"{name}={value}" if isinstance(value, str) else name: 1.0 if isinstance(value, str) else math.log(value)
        for name, value in sizes.items()
    }


def _table(rows: Sequence[Sizes], names: Sequence[str]) -> Floats:
    """Features [N, P]; NaN where a number is lacking, 0 where a word is."""
    table = np.array([0.0 if "=" in name else np.nan for name in names]) + np.zeros((len(rows), 1))
    place = {name: index for index, name in enumerate(names)}
    for row, sizes in zip(table, rows, strict=True):
        for name, value in _features(sizes).items():
            row[place[name]] = value
    return table


def _means(table: Floats) -> Floats:
    """Means of the columns without NaN, 0 where nothing else is."""
    counts = (~np.isnan(table)).sum(axis=0)
    means: Floats = np.nansum(table, axis=0) / np.maximum(counts, 1)
    return means


def _posterior(x: Floats, y: Floats, prior: Floats, usual: float) -> tuple[Floats, Floats, float]:
    """Mean and covariance of the coefficients, and the variance of the scatter, `usual` before anything was seen."""
    scatter = usual
    precision = np.diag(prior[:, 1] ** -2.0)
    for _ in range(ROUNDS):
        covariance = np.linalg.inv(precision + x.T @ x / scatter)
        coefficients = covariance @ (precision @ prior[:, 0] + x.T @ y / scatter)
        squares = float(((y - x @ coefficients) ** 2).sum())
        spent = float(np.trace(covariance @ (x.T @ x))) / scatter
        scatter = (SCATTER_WEIGHT * usual + squares) / (SCATTER_WEIGHT + max(len(y) - spent, 0.0))
    return coefficients, np.asarray(covariance, dtype=np.float64), scatter


def _beyond(names: Sequence[str], known: Floats, asked: Floats) -> tuple[str, ...]:
    """Names of numbers outside the range measured, and of words that were never measured."""
    low, high = (np.nan_to_num(edge, nan=0.0) for edge in (_least(known), -_least(-known)))
    low[["=" in name for name in names]] = 0.0
    unseen = np.isnan(known).all(axis=0) & ~np.isnan(asked).all(axis=0)
    with np.errstate(invalid="ignore"):
        outside = np.logical_or(unseen, ((asked > high + 1e-9) | (asked < low - 1e-9)).any(axis=0))
    return tuple(name for name, out in zip(names, outside, strict=True) if out)


def _least(table: Floats) -> Floats:
    """Least of each column, NaN left out; NaN where there is nothing else."""
    least = np.where(np.isnan(table), np.inf, table).min(axis=0)
    return np.where(np.isinf(least), np.nan, least)
