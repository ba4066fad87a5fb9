"""The interquartile mean against scipy and rliable, and how often its interval covers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tasks.aggregates import interquartile_interval, interquartile_mean


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40))
def test_the_mean_is_that_of_scipy(values: list[float]) -> None:
    assert interquartile_mean(np.array(values)) == pytest.approx(stats.trim_mean(values, 0.25), rel=1e-12, abs=1e-9)


def test_many_means_at_once_equal_one_by_one() -> None:
    values = np.random.default_rng(0).random((5, 3, 11))
    means = interquartile_mean(values)
    assert means.shape == (5, 3)
    assert means[4, 2] == interquartile_mean(values[4, 2])


@pytest.mark.parametrize("common", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("seeds", [5, 20])
def test_intervals_cover_95_percent_whatever_cells_have_in_common(seeds: int, common: float) -> None:
    """common: the share of a cell's deviation that the seed brings to all cells."""
    rng = np.random.default_rng(0)
    means = np.linspace(0.4, 0.9, 4)
    truth = interquartile_mean((means + 0.05 * rng.normal(size=(250_000, 4))).ravel())
    inside = []
    for _ in range(2000):
        hardness, own = rng.normal(size=(seeds, 1)), rng.normal(size=(seeds, 4))
        values = means + 0.05 * (common * hardness + np.sqrt(1 - common**2) * own)
        interval = interquartile_interval(values, rng, resamples=300)
        assert interval.low is not None
        assert interval.high is not None
        inside.append(interval.low <= truth <= interval.high)
    assert 0.93 <= np.mean(inside) <= 0.97


def test_cells_that_have_nothing_in_common_get_the_interval_of_rliable() -> None:
    library = pytest.importorskip("rliable.library")
    metrics = pytest.importorskip("rliable.metrics")
    values = np.random.default_rng(0).normal(np.linspace(0.4, 0.9, 6), 0.05, (60, 6))
    estimates, ends = library.get_interval_estimates(
        {"a": values}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=2000
    )
    ours = interquartile_interval(values, np.random.default_rng(1))
    assert ours.mean == pytest.approx(estimates["a"][0])
    assert ours.low == pytest.approx(ends["a"][0, 0], abs=0.004)
    assert ours.high == pytest.approx(ends["a"][1, 0], abs=0.004)


def test_one_seed_is_undefined_and_a_missing_value_is_refused() -> None:
    alone = interquartile_interval(np.array([[0.2, 0.4, 0.6, 0.8]]), np.random.default_rng(0))
    assert (alone.mean, alone.low, alone.n) == (pytest.approx(0.5), None, 1)
    assert alone.method == "interquartile mean of 4 cells, undefined: one seed"
    for values in (np.array([[0.5, np.nan]]), np.empty((0, 3))):
        with pytest.raises(ValueError, match="finite value for every seed and cell"):
            interquartile_interval(values, np.random.default_rng(0))
