"""Crossings of costs that are made up, so that it is known where they are."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.crossing import FARTHEST, Growing, crossings

SIZES = np.array([128.0, 256.0, 512.0, 1024.0, 2048.0])


def growing(factor: float, exponent: float, overhead: float = 0.0, noise: float = 0.0, seeds: int = 3) -> Growing:
    """Costs of a known law, with noise that is the same at every call with the same arguments."""
    rng = np.random.default_rng(round(1000 * exponent))
    scatter = np.exp(noise * rng.normal(size=(seeds, len(SIZES))))
    return Growing(SIZES, (overhead + factor * SIZES**exponent) * scatter, overhead > 0)


def test_powers_cross_where_algebra_says() -> None:
    [one] = crossings(growing(1.0, 2.0), growing(700.0, 1.0))
    assert one.size.mean == pytest.approx(700.0)
    assert (one.first_below, one.extrapolated) == (True, False)
    [other] = crossings(growing(700.0, 1.0), growing(1.0, 2.0))
    assert (other.size.mean, other.first_below) == (pytest.approx(700.0), False)


def test_what_was_not_measured_is_extrapolated_and_what_is_far_is_not_told() -> None:
    [one] = crossings(growing(1.0, 2.0), growing(8192.0, 1.0))
    assert one.size.mean == pytest.approx(8192.0)
    assert one.extrapolated
    assert not crossings(growing(1.0, 2.0), growing(2 * FARTHEST * SIZES.max(), 1.0))


def test_an_overhead_is_part_of_the_law() -> None:
    """Where 1,000 + size² / 100 and 10 · size meet: twice."""
    found = crossings(growing(0.01, 2.0, overhead=1000.0), growing(10.0, 1.0))
    roots = np.sort(np.roots([0.01, -10.0, 1000.0]))
    inside = [root for root in roots if root > SIZES.min() / FARTHEST]
    assert [one.size.mean for one in found] == pytest.approx(inside, rel=1e-3)
    assert [one.first_below for one in found] == [False, True]


def test_the_interval_covers_the_truth_and_one_seed_has_none() -> None:
    covered = 0
    for place in range(200):
        rng = np.random.default_rng(place)
        noise = np.exp(0.05 * rng.normal(size=(2, 5, len(SIZES))))
        first, second = (
            Growing(SIZES, law * scatter, False) for law, scatter in zip((SIZES**2, 700.0 * SIZES), noise, strict=True)
        )
        [one] = crossings(first, second)
        assert one.size.low is not None
        assert one.size.high is not None
        covered += one.size.low <= 700.0 <= one.size.high
    assert 180 <= covered <= 198, "95% of 200"
    [alone] = crossings(growing(1.0, 2.0, seeds=1), growing(700.0, 1.0, seeds=1))
    assert (alone.size.low, alone.size.method) == (None, "undefined: one seed")
    with pytest.raises(ValueError, match="paired"):
        crossings(growing(1.0, 2.0, seeds=2), growing(700.0, 1.0, seeds=3))
