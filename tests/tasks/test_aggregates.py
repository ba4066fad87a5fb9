"""Interquartile means against scipy and rliable, and how often intervals of these and of medians cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tasks.aggregates import interquartile_interval, interquartile_mean, median_interval


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


def test_the_interval_of_a_median_by_hand() -> None:
    """Of 10 values the 2nd to the 9th cover with 1 - 22/1024, the 3rd to the 8th with 1 - 112/1024."""
    surplus = (1 - 22 / 1024 - 0.95) / (90 / 1024)
    share = 8 * surplus / (2 + 6 * surplus)
    found = median_interval(range(1, 11), "studies")
    assert (found.mean, found.low, found.high) == pytest.approx((5.5, 2 + share, 9 - share))
    assert (found.n, found.method) == (10, "median of 10 studies between ordered values, interpolated")


@pytest.mark.parametrize("draw", ["normal", "exponential", "uniform"])
@pytest.mark.parametrize("n", [6, 7, 10, 15])
def test_intervals_of_medians_cover_95_percent(n: int, draw: str) -> None:
    rng = np.random.default_rng(0)
    truth = {"normal": 0.0, "exponential": np.log(2.0), "uniform": 0.5}[draw]
    found = [median_interval(values) for values in getattr(rng, draw)(size=(2000, n))]
    assert 0.93 <= np.mean([one.low is not None and one.low <= truth <= (one.high or 0.0) for one in found]) <= 0.97


def test_five_values_give_a_median_without_an_interval() -> None:
    found = median_interval([3.0, 1.0, 2.0, 5.0, 4.0])
    assert (found.mean, found.low, found.high) == (3.0, None, None)
    assert "too few" in found.method
    with pytest.raises(ValueError, match="finite"):
        median_interval([])
