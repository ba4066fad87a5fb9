"""Logarithmic growth: the concentration of Chinese restaurants is found, with intervals that cover."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.bootstrap import bca_limits
from tasks.growth import fit_log_growth, log_slopes
from tasks.scaling import TooFewSizesError
from tasks.seeds import generator
from tasks.workloads.chinese_restaurant import seat

TOKENS = 100.0 * 2 ** np.arange(6)


def restaurants(alpha: float, runs: int, rng: np.random.Generator) -> np.ndarray:
    """Items [runs, 6] of so many runs at TOKENS: token i opens one with probability α / (α + i)."""
    counts, last = [], 0
    for end in TOKENS.astype(int).tolist():
        opens = rng.random((runs, end - last), dtype=np.float32) < alpha / (alpha + np.arange(last, end))
        counts.append(opens.sum(axis=1))
        last = end
    return np.cumsum(counts, axis=0).T


def test_intervals_by_runs_cover_alpha_95_percent_and_by_points_far_less() -> None:
    rng = np.random.default_rng(0)
    runs = np.stack([restaurants(1.0, 1000, rng) for _ in range(40)])  # 2,000 cases of 20 runs
    slopes = log_slopes(TOKENS, runs.reshape(20, 2000, len(TOKENS)))
    low, high = bca_limits(slopes, np.random.default_rng(1), 5000)
    assert 0.93 <= np.mean((low <= 1.0) & (high >= 1.0)) <= 0.97
    x = np.log(TOKENS) - np.log(TOKENS).mean()
    points = runs.reshape(20, 2000, len(TOKENS))
    residuals = points - points.mean(axis=(0, 2))[:, None] - slopes.mean(axis=0)[:, None] * x
    error = np.sqrt((residuals**2).sum(axis=(0, 2)) / (20 * 6 - 2) / (20 * (x @ x)))
    assert np.mean(np.abs(slopes.mean(axis=0) - 1.0) <= 1.98 * error) != pytest.approx(0.95, abs=0.02)


def test_the_concentration_of_the_workload_is_found() -> None:
    ends = 500 * 2 ** np.arange(6)
    items = np.array(
        [[seat(5.0, int(ends[-1]), generator(seed, "stream"))[:end].max() + 1 for end in ends] for seed in range(30)]
    )
    growth = fit_log_growth(ends, items, np.random.default_rng(0))
    assert growth.slope.low is not None
    assert growth.slope.high is not None
    assert growth.slope.low < 5.0 < growth.slope.high
    assert growth.slope.high - growth.slope.low < 2.0
    assert growth.slope.n == 30
    predicted, beyond = growth.predict(10 * float(ends[-1]))
    assert beyond
    assert predicted == pytest.approx(items[:, -1].mean() + 5.0 * np.log(10), abs=3.0)
    assert growth.predict(1000.0)[1] is False


def test_an_exact_line_is_found_exactly() -> None:
    growth = fit_log_growth([1.0, 10.0, 100.0], [3 + 2 * np.log([1.0, 10.0, 100.0])] * 6, np.random.default_rng(0))
    assert growth.slope.mean == pytest.approx(2.0)
    assert growth.offset == pytest.approx(3.0)


def test_too_few_sizes_and_missing_counts_are_refused() -> None:
    with pytest.raises(TooFewSizesError, match="at least 3 sizes; there are 2"):
        fit_log_growth([1.0, 2.0], [[1.0, 2.0]], np.random.default_rng(0))
    with pytest.raises(ValueError, match="finite counts"):
        fit_log_growth([1.0, 2.0, 3.0], [[1.0, 2.0, np.nan]], np.random.default_rng(0))
