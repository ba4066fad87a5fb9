"""Resampled intervals: against scipy and hand values, and how often they cover."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import stats

from tasks.bootstrap import CurveSample, bca_interval, bca_limits, paired_bootstrap, weighted_means
from tasks.staircase import area_under_curve
from tasks.statistics import mean_interval

NAN = float("nan")


def recalls_of(share: float, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Recalls over 300 episodes."""
    return rng.binomial(300, share, shape) / 300


@pytest.mark.parametrize("seeds", [8, 10, 20, 50])
@pytest.mark.parametrize("share", [0.5, 0.92])
def test_bca_intervals_cover_95_percent(seeds: int, share: float) -> None:
    low, high = bca_limits(recalls_of(share, (seeds, 2000), np.random.default_rng(0)), np.random.default_rng(1), 5000)
    assert 0.93 <= np.mean((low <= share) & (share <= high)) <= 0.97


def test_bca_intervals_of_skewed_values_cover_where_there_are_enough_seeds() -> None:
    values = np.random.default_rng(0).exponential(1.0, (50, 2000))
    low, high = bca_limits(values, np.random.default_rng(1), 5000)
    assert 0.93 <= np.mean((low <= 1.0) & (high >= 1.0)) <= 0.97


@pytest.mark.parametrize("seeds", [10, 40])
def test_bca_is_that_of_scipy_at_the_level_that_expansion_asks_for(seeds: int) -> None:
    values = np.random.default_rng(2).exponential(1.0, seeds)
    reach = stats.t.ppf(0.975, seeds - 1) * np.sqrt(seeds / (seeds - 1))
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=50_000, confidence_level=2 * stats.norm.cdf(reach) - 1, method="BCa", rng=3
    ).confidence_interval
    ours = bca_interval(values, np.random.default_rng(4))
    assert ours.low == pytest.approx(theirs.low, abs=0.02)
    assert ours.high == pytest.approx(theirs.high, abs=0.06)
    assert (ours.mean, ours.n) == (pytest.approx(values.mean()), seeds)
    assert ours.method == f"BCa bootstrap over {seeds} seeds, expanded, 10000 resamples"


def test_bca_leans_towards_the_long_tail() -> None:
    interval = bca_interval(np.random.default_rng(2).exponential(1.0, 20), np.random.default_rng(0))
    assert interval.low is not None
    assert interval.high is not None
    assert interval.high - interval.mean > 1.2 * (interval.mean - interval.low)


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_too_few_seeds_to_resample_are_undefined(seeds: int) -> None:
    interval = bca_interval(np.arange(seeds), np.random.default_rng(0))
    assert (interval.low, interval.high, interval.n) == (None, None, seeds)
    assert interval.method.startswith("undefined: ")


def test_equal_values_are_not_resampled() -> None:
    rng = np.random.default_rng(0)
    assert bca_interval([1.0] * 8, rng, outcomes=300) == mean_interval([1.0] * 8, outcomes=300)
    assert bca_interval([0.4] * 8, rng).method == "no spread: all 8 seeds are equal"


def test_bca_limits_are_cut_at_what_a_value_can_be() -> None:
    interval = bca_interval([0.6, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.99], np.random.default_rng(0), bounds=(0.7, 0.98))
    assert (interval.low, interval.high) == (0.7, 0.98)


def best_recall(sizes: np.ndarray, recalls: np.ndarray) -> np.ndarray:
    return recalls.max(axis=1)


def curve(recalls: np.ndarray) -> CurveSample:
    return CurveSample(np.broadcast_to(2.0 ** np.arange(recalls.shape[1]), recalls.shape), recalls)


def test_bootstrap_value_is_the_statistic_of_the_means() -> None:
    recalls = np.random.default_rng(0).random((10, 4))
    (result,) = paired_bootstrap([curve(recalls)], best_recall, np.random.default_rng(1))
    assert result.value == pytest.approx(recalls.mean(axis=0).max())
    interval = result.interval()
    assert interval.n == 10
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low < interval.mean < interval.high
    assert interval.method == "Student t with bootstrap error over 10 paired seeds, 1000 resamples"


@pytest.mark.parametrize("seeds", [5, 20])
def test_intervals_of_areas_and_of_their_differences_cover_95_percent(
    seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.bootstrap.RESAMPLES", 250)
    rng = np.random.default_rng(6)
    better, worse = np.array([0.5, 0.7, 0.9]), np.array([0.4, 0.65, 0.85])
    area = partial(area_under_curve, low=1.0, high=8.0)
    sizes = 2.0 ** np.arange(3)
    truth, apart = float(area(sizes, better)), float(area(sizes, better) - area(sizes, worse))
    inside = []
    for _ in range(2000):
        hardness = rng.normal(0, 0.02, (seeds, 1))
        curves = [curve(means + hardness + rng.normal(0, 0.01, (seeds, 3))) for means in (better, worse)]
        first, second = paired_bootstrap(curves, area, rng)
        intervals = first.interval(), first.minus(second).interval()
        inside.append([i.low <= true <= i.high for i, true in zip(intervals, (truth, apart), strict=True)])  # type: ignore[operator]
    assert (np.abs(np.mean(inside, axis=0) - 0.95) <= 0.02).all()


def test_bootstrap_resamples_the_same_seeds_for_all_curves() -> None:
    """A seed that is hard for one mechanism is hard for the other: their difference is far surer than each of them."""
    rng = np.random.default_rng(0)
    hardness = rng.normal(0, 0.1, (20, 1))
    a = curve(0.5 + hardness + rng.normal(0, 0.001, (20, 3)))
    b = curve(0.4 + hardness + rng.normal(0, 0.001, (20, 3)))
    first, second, again = paired_bootstrap([a, b, a], best_recall, np.random.default_rng(1))
    assert np.array_equal(first.resampled, again.resampled)
    difference, alone = first.minus(second).interval(), first.interval()
    assert None not in (difference.low, difference.high, alone.low, alone.high)
    assert difference.low < 0.1 < difference.high  # type: ignore[operator]
    assert difference.high - difference.low < 0.05 * (alone.high - alone.low)  # type: ignore[operator]


def test_bootstrap_is_reproducible() -> None:
    recalls = np.random.default_rng(0).random((6, 3))
    a, b = (paired_bootstrap([curve(recalls)], best_recall, np.random.default_rng(7))[0].interval() for _ in range(2))
    assert a == b


def test_bootstrap_over_one_seed_is_undefined() -> None:
    (result,) = paired_bootstrap([curve(np.array([[0.5, 0.6]]))], best_recall, np.random.default_rng(0))
    assert (result.value, result.interval().low, result.interval().method) == (0.6, None, "undefined: one seed")


def test_a_curve_with_fewer_seeds_than_others_counts_its_own() -> None:
    full = np.random.default_rng(0).random((6, 2))
    partial = full.copy()
    partial[3:] = NAN
    single = full.copy()
    single[1:] = NAN
    results = paired_bootstrap(
        [curve(full), curve(partial), curve(single)],
        lambda sizes, recalls: area_under_curve(sizes, recalls, 1, 4),
        np.random.default_rng(0),
    )
    intervals = [result.interval() for result in results]
    assert [interval.n for interval in intervals] == [6, 3, 1]
    assert intervals[2].low is None
    assert np.isnan(results[1].resampled).any(), "a resample without any seed of a curve says nothing about it"
    assert np.nanmin(results[1].resampled) > 0.0


@pytest.mark.parametrize("seeds", [2, 6])
def test_bootstrap_intervals_of_a_mean_are_those_of_student(seeds: int) -> None:
    recalls = np.random.default_rng(3).normal(0.5, 0.1, (seeds, 1))
    (result,) = paired_bootstrap([curve(recalls)], best_recall, np.random.default_rng(4))
    bootstrap, student = result.interval(), mean_interval(recalls[:, 0])
    assert None not in (bootstrap.low, bootstrap.high, student.low, student.high)
    assert bootstrap.high - bootstrap.low == pytest.approx(student.high - student.low, rel=0.1)  # type: ignore[operator]
    assert (bootstrap.high + bootstrap.low) / 2 == pytest.approx(student.mean)  # type: ignore[operator]


def test_bootstrap_intervals_are_cut_at_what_a_value_can_be() -> None:
    (result,) = paired_bootstrap([curve(np.array([[0.99], [0.8], [1.0]]))], best_recall, np.random.default_rng(0))
    assert result.interval(bounds=(0.0, 1.0)).high == 1.0


def test_bootstrap_without_spread_says_so() -> None:
    (result,) = paired_bootstrap([curve(np.full((5, 2), 0.9))], best_recall, np.random.default_rng(0))
    interval = result.interval()
    assert interval.low == interval.high == interval.mean == pytest.approx(0.9)
    assert interval.method == "no spread: all resamples of 5 seeds are equal"


def test_weighted_means_leave_missing_values_out() -> None:
    values = np.array([[1.0, NAN], [3.0, NAN], [NAN, 5.0]])
    means = weighted_means(values, np.array([[1.0, 1.0, 1.0], [3.0, 1.0, 0.0]]))
    np.testing.assert_array_equal(means, [[2.0, 5.0], [1.5, NAN]])
