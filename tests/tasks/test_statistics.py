"""Intervals against scipy and hand values, and how often they cover."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tasks.staircase import area_under_curve
from tasks.statistics import (
    CurveSample,
    column_means,
    equivalence,
    mean_interval,
    mean_intervals,
    paired_bootstrap,
    paired_difference,
    weighted_means,
)

NAN = float("nan")


def test_five_seeds_give_mean_n_interval_and_method() -> None:
    values = [0.91, 0.93, 0.92, 0.95, 0.90]
    interval = mean_interval(values)
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert interval.mean == pytest.approx(np.mean(values))
    assert (interval.low, interval.high) == (pytest.approx(low), pytest.approx(high))
    assert (interval.n, interval.method) == (5, "Student t over 5 seeds")


def test_one_seed_has_no_interval() -> None:
    interval = mean_interval([0.9])
    assert (interval.mean, interval.low, interval.high, interval.n) == (0.9, None, None, 1)
    assert interval.method == "undefined: one seed"


@pytest.mark.parametrize("values", [[], [0.5, NAN], [0.5, float("inf")], [[0.5, 0.6]]])
def test_no_values_and_values_that_are_not_finite_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite values"):
        mean_interval(values)


def test_equal_values_say_that_there_was_no_spread() -> None:
    interval = mean_interval([64.0] * 10)
    assert (interval.mean, interval.low, interval.high) == (64.0, 64.0, 64.0)
    assert interval.method == "no spread: all 10 seeds are equal"


@pytest.mark.parametrize(("value", "right"), [(1.0, 3000), (0.0, 0)])
def test_all_right_and_all_wrong_get_the_exact_binomial_interval(value: float, right: int) -> None:
    interval = mean_interval([value] * 10, outcomes=300, bounds=(0, 1))
    exact = stats.binomtest(right, 3000).proportion_ci(0.95, "exact")
    assert (interval.low, interval.high) == (pytest.approx(exact.low), pytest.approx(exact.high))
    assert interval.method == "exact binomial over 3000 episodes: all 10 seeds are equal"


def test_equal_values_between_0_and_1_are_not_all_right_or_wrong() -> None:
    assert mean_interval([0.5] * 3, outcomes=300).method == "no spread: all 3 seeds are equal"


def test_limits_are_cut_at_what_a_value_can_be() -> None:
    interval = mean_interval([1.0, 1.0, 0.9], bounds=(0.0, 1.0))
    assert interval.high == 1.0
    assert interval.low == pytest.approx(stats.t.interval(0.95, 2, 2.9 / 3, stats.sem([1.0, 1.0, 0.9]))[0])


def test_columns_leave_missing_seeds_out() -> None:
    values = np.array([[1.0, NAN, NAN], [2.0, 5.0, NAN], [4.0, NAN, NAN]])
    all_there, one_there, none_there = mean_intervals(values)
    assert all_there == mean_interval([1.0, 2.0, 4.0])
    assert one_there == mean_interval([5.0])
    assert none_there is None
    assert mean_intervals(np.empty((0, 2))) == [None, None]


def test_student_intervals_cover_95_percent() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, (5, 4000))
    inside = [i.low <= 3.0 <= i.high for i in mean_intervals(values) if i is not None and i.low is not None and i.high]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.012)


def test_intervals_of_a_recall_near_1_cover_when_all_seeds_agree() -> None:
    """With a recall of 0.9995 most sweeps of 2 seeds × 300 episodes see no error; Student's t would claim exactly 1."""
    right = np.random.default_rng(1).binomial(300, 0.9995, (2, 2000)) / 300
    perfect = right[:, (right == 1.0).all(axis=0)]
    assert perfect.shape[1] > 1000
    for interval in mean_intervals(perfect, bounds=(0, 1), outcomes=300):
        assert interval is not None
        assert interval.low is not None
        assert interval.low < 0.9995
        assert interval.high == 1.0


def test_a_difference_is_taken_over_the_seeds_that_both_have() -> None:
    a = {0: 0.9, 1: 0.8, 2: 0.7, 7: 0.1}
    b = {0: 0.85, 1: 0.78, 2: 0.62, 9: 0.9}
    difference = paired_difference(a, b)
    low, high = stats.ttest_rel([0.9, 0.8, 0.7], [0.85, 0.78, 0.62]).confidence_interval(0.95)
    assert (difference.mean, difference.n) == (pytest.approx(0.05), 3)
    assert (difference.low, difference.high) == (pytest.approx(low), pytest.approx(high))
    assert difference.method == "paired by seed, Student t over 3 seeds; 2 seeds of one side only left out"


def test_a_difference_over_one_seed_is_undefined_and_over_none_is_refused() -> None:
    assert paired_difference({3: 0.5}, {3: 0.4}).low is None
    with pytest.raises(ValueError, match="seeds that both sides have"):
        paired_difference({0: 0.5}, {1: 0.5})


def test_equivalence_equals_two_one_sided_tests() -> None:
    rng = np.random.default_rng(0)
    a = dict(enumerate(rng.normal(0.9, 0.01, 10)))
    b = {seed: value + rng.normal(0.002, 0.004) for seed, value in a.items()}
    result = equivalence(a, b, margin=0.01)
    differences = [a[seed] - b[seed] for seed in a]
    p = max(
        stats.ttest_1samp(differences, -0.01, alternative="greater").pvalue,
        stats.ttest_1samp(differences, 0.01, alternative="less").pvalue,
    )
    assert result.p == pytest.approx(p)
    assert result.equal == (p < 0.05)
    assert "margin 0.01" in result.method


def test_equivalence_of_two_things_that_differ_by_the_margin_is_found_one_time_in_twenty() -> None:
    rng = np.random.default_rng(2)
    found = [
        equivalence(dict(enumerate(rng.normal(0.01, 0.005, 8))), dict.fromkeys(range(8), 0.0), 0.01).equal
        for _ in range(1500)
    ]
    assert np.mean(found) == pytest.approx(0.05, abs=0.02)


def test_equivalence_at_the_edges() -> None:
    same = dict.fromkeys(range(5), 1.0)
    assert equivalence(same, same, 0.01).equal is True
    assert equivalence(same, dict.fromkeys(range(5), 0.5), 0.01).equal is False
    assert equivalence({0: 1.0}, {0: 1.0}, 0.01).equal is None
    for margin in (0.0, -1.0, NAN):
        with pytest.raises(ValueError, match="margin > 0"):
            equivalence(same, same, margin)


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


def test_equal_columns_have_equal_means_to_the_last_bit() -> None:
    column = np.random.default_rng(0).random((11, 1))
    counts, means = column_means(np.repeat(column, 9, axis=1))
    assert set(counts.tolist()) == {11}
    assert len(set(means.tolist())) == 1


def test_weighted_means_leave_missing_values_out() -> None:
    values = np.array([[1.0, NAN], [3.0, NAN], [NAN, 5.0]])
    means = weighted_means(values, np.array([[1.0, 1.0, 1.0], [3.0, 1.0, 0.0]]))
    np.testing.assert_array_equal(means, [[2.0, 5.0], [1.5, NAN]])
