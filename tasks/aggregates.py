"""Aggregates over cells: the interquartile mean of all their values, which neither easy nor hopeless cells decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from models.stream import Floats
from tasks.bootstrap import RESAMPLES, Bootstrap
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
