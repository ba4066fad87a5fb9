"""Seeds until an interval is narrow: coverage although the number of seeds depends on what was seen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tasks.sequential import FixedWidth
from tasks.statistics import mean_interval

NAN = float("nan")


def narrowed(rule: FixedWidth, values: np.ndarray) -> tuple[float, float, int]:
    """Ends of the interval, and the seeds it took, of endless `values`."""
    n = rule.seeds_needed(values[: rule.first])
    interval = rule.interval(values[:n])
    assert interval.low is not None
    assert interval.high is not None
    return interval.low, interval.high, interval.n


@pytest.mark.parametrize("half_width", [0.004, 0.01, 0.05])
def test_intervals_cover_95_percent_and_are_as_narrow_as_asked(half_width: float) -> None:
    rule = FixedWidth(half_width, most=10_000)
    values = np.random.default_rng(0).normal(0.92, 0.016, (2000, 400))
    low, high, _ = np.array([narrowed(rule, row) for row in values]).T
    assert np.mean((low <= 0.92) & (high >= 0.92)) >= 0.93 or half_width == 0.05
    assert np.mean((low <= 0.92) & (high >= 0.92)) == pytest.approx(0.95, abs=0.02)
    assert ((high - low) / 2 <= half_width * (1 + 1e-9)).all()


def test_looking_after_every_seed_would_cover_less() -> None:
    """Why two stages: a t interval that stops as soon as it is narrow is too often wrong."""
    values = np.random.default_rng(1).normal(0.0, 1.0, (2000, 60))
    counts = np.arange(1, 61)
    means = values.cumsum(axis=1) / counts
    spread = np.sqrt(np.maximum((values**2).cumsum(axis=1) - counts * means**2, 0) / np.maximum(counts - 1, 1))
    half = stats.t.ppf(0.975, np.maximum(counts - 1, 1)) * spread / np.sqrt(counts)
    stop = np.argmax((half <= 0.6) & (counts >= 3), axis=1)
    inside = np.abs(means[np.arange(2000), stop]) <= half[np.arange(2000), stop]
    assert np.mean(inside) < 0.93
    rule = FixedWidth(0.6, most=10_000, first=3)
    wide = np.random.default_rng(2).normal(0.0, 1.0, (2000, 1500))
    low, high, _ = np.array([narrowed(rule, row) for row in wide]).T
    assert 0.93 <= np.mean((low <= 0) & (high >= 0)) <= 0.97


def test_recalls_cover_too() -> None:
    rule = FixedWidth(0.006, most=200)
    values = np.random.default_rng(3).binomial(300, 0.92, (2000, 200)) / 300
    low, high, _ = np.array([narrowed(rule, row) for row in values]).T
    assert 0.93 <= np.mean((low <= 0.92) & (high >= 0.92)) <= 0.97


def test_a_paired_difference_covers_with_the_seeds_that_one_cell_asked_for() -> None:
    rule = FixedWidth(0.01, most=200)
    rng = np.random.default_rng(4)
    inside = []
    for _ in range(2000):
        hardness = rng.normal(0.0, 0.02, 200)
        a, b = (mean + hardness + rng.normal(0.0, 0.01, 200) for mean in (0.9, 0.85))
        n = max(rule.seeds_needed(a), rule.seeds_needed(b))
        interval = rule.interval((a - b)[:n])
        inside.append(interval.low <= 0.05 <= interval.high)  # type: ignore[operator]
    assert 0.93 <= np.mean(inside) <= 0.97


def test_the_number_of_seeds_is_known_after_the_first_stage_and_does_not_change() -> None:
    values = np.random.default_rng(0).normal(0.9, 0.02, 300)
    rule = FixedWidth(0.005, most=300)
    n = rule.seeds_needed(values[:10])
    expected = math.ceil((stats.t.ppf(0.975, 9) * values[:10].std(ddof=1) / 0.005) ** 2)
    assert n == expected > 10
    assert rule.seeds_needed(values[:50]) == n
    assert rule.interval(values[:n]).method == f"Stein's two stages over {n} seeds, the first 10 telling how many"


def test_narrow_enough_at_once_asks_for_no_more() -> None:
    values = np.random.default_rng(0).normal(0.9, 0.02, 10)
    rule = FixedWidth(0.5, most=200)
    assert rule.seeds_needed(values) == 10
    assert rule.interval(values).low == pytest.approx(mean_interval(values).low)


def test_the_most_is_kept_and_said() -> None:
    values = np.random.default_rng(0).normal(0.9, 0.02, 20)
    rule = FixedWidth(0.001, most=20)
    assert rule.seeds_needed(values) == 20
    assert rule.interval(values).method.endswith("± 0.001 not reached")
    few = FixedWidth(0.001, most=4)
    assert few.stage == few.seeds_needed(values[:4]) == 4


def test_seeds_that_are_all_right_go_on_until_the_exact_interval_is_narrow() -> None:
    rule = FixedWidth(0.0002, most=500)
    n = rule.seeds_needed(np.ones(10), outcomes=300)
    assert 10 < n < 500
    for seeds, narrow in ((n, True), (n - 1, False)):
        interval = rule.interval(np.ones(seeds), outcomes=300)
        assert interval.low is not None
        assert ((1.0 - interval.low) / 2 <= 0.0002) == narrow
    assert rule.seeds_needed(np.ones(10)) == 10
    assert FixedWidth(0.6, most=500).seeds_needed(np.zeros(10), outcomes=1) == 10


def test_spread_that_only_the_second_stage_shows_is_counted() -> None:
    values = np.array([1.0] * 10 + [0.9] * 5)
    interval = FixedWidth(0.01, most=15).interval(values)
    assert (interval.low, interval.method) == (mean_interval(values).low, "Student t over 15 seeds")


def test_what_cannot_be_narrowed_is_refused() -> None:
    for half_width, most in ((0.0, 10), (-1.0, 10), (NAN, 10), (0.01, 1)):
        with pytest.raises(ValueError, match="half_width > 0 and max ≥ 2"):
            FixedWidth(half_width, most)
    for values in (np.ones(9), np.full(10, NAN)):
        with pytest.raises(ValueError, match="finite values of 10 seeds"):
            FixedWidth(0.01, 100).seeds_needed(values)
