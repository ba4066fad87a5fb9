"""Intervals against scipy and hand values, and how often they cover."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tasks.statistics import (
    column_means,
    equivalence,
    mean_interval,
    mean_intervals,
    paired_difference,
)

NAN = float("nan")


def test_scenario_27_five_seeds_give_mean_n_interval_and_method() -> None:
    values = [0.91, 0.93, 0.92, 0.95, 0.90]
    interval = mean_interval(values)
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert interval.mean == pytest.approx(np.mean(values))
    assert (interval.low, interval.high) == (pytest.approx(low), pytest.approx(high))
    assert (interval.n, interval.method) == (5, "Student t over 5 seeds")


def test_scenario_27_one_seed_has_no_interval() -> None:
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


@pytest.mark.parametrize("seeds", [2, 5, 20])
def test_student_intervals_cover_95_percent(seeds: int) -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, (seeds, 2000))
    inside = [i.low <= 3.0 <= i.high for i in mean_intervals(values) if i is not None and i.low is not None and i.high]
    assert 0.93 <= np.mean(inside) <= 0.97


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


def test_scenario_27_a_difference_is_taken_over_the_seeds_that_both_have() -> None:
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


def test_differences_of_0_alone_leave_what_so_many_episodes_can_miss() -> None:
    """15 paired episodes of which none differs leave up to 22%, not 0."""
    same = dict.fromkeys(range(3), 0.8)
    difference = paired_difference(same, same, outcomes=5)
    high = stats.binomtest(0, 15).proportion_ci(0.95, method="exact").high
    assert high == pytest.approx(0.218, abs=1e-3)
    assert (difference.mean, difference.n) == (0.0, 3)
    assert (difference.low, difference.high) == (pytest.approx(-high), pytest.approx(high))
    assert "exact binomial over 15 episodes" in difference.method
    assert paired_difference(same, dict.fromkeys(range(3), 0.7), outcomes=5).low == pytest.approx(0.1)
    few, many = equivalence(same, same, 0.01, outcomes=5), equivalence(same, same, 0.01, outcomes=200)
    assert few.p == pytest.approx(stats.binomtest(0, 15, 0.01, alternative="less").pvalue)
    assert (few.equal, many.equal) == (False, True)
    assert paired_difference({0: 0.5}, {0: 0.5}, outcomes=5).low is None


def discordant(rng: np.random.Generator, share: float, seeds: int, episodes: int) -> tuple[dict, dict]:
    """Recalls of which the second is below in `share` of all episodes, and nowhere above."""
    right = rng.random((seeds, episodes)) < 0.8 + share
    worse = right & (rng.random((seeds, episodes)) < share / (0.8 + share))
    a, b = right.mean(axis=1), (right & ~worse).mean(axis=1)
    return dict(enumerate(a)), dict(enumerate(b))


@pytest.mark.parametrize("share", [0.002, 0.02, 0.2])
def test_limits_of_differences_of_0_alone_fail_in_one_case_of_forty_at_most(share: float) -> None:
    """Of 2,000 simulated pairs, those without any difference exclude the true one in 2.5% of all at most."""
    rng = np.random.default_rng(3)
    missed = equal = 0
    for _ in range(2000):
        a, b = discordant(rng, share, seeds=3, episodes=5)
        if a == b:
            found = paired_difference(a, b, outcomes=5)
            assert found.high is not None
            missed += found.high < share
    assert missed / 2000 < 0.025 + 3 * np.sqrt(0.025 * 0.975 / 2000)
    margin, episodes = share, int(np.ceil(np.log(0.05) / np.log(1 - share) / 3))
    for _ in range(2000):
        a, b = discordant(rng, share, seeds=3, episodes=episodes)
        equal += a == b and equivalence(a, b, margin, outcomes=episodes).equal is True
    assert 0.03 < equal / 2000 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000), "the test of equality has its size"


def test_equal_columns_have_equal_means_to_the_last_bit() -> None:
    column = np.random.default_rng(0).random((11, 1))
    counts, means = column_means(np.repeat(column, 9, axis=1))
    assert set(counts.tolist()) == {11}
    assert len(set(means.tolist())) == 1
