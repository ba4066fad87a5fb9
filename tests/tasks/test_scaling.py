"""Fits of power laws: intervals that cover as they claim, refusals where sizes are too few, marks on extrapolation."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.scaling import TooFewSizesError, fit_power_law

SIZES = np.array([512.0, 1024, 2048, 4096, 8192, 16384])


def costs(rng: np.random.Generator, exponent: float, seeds: int, spread: float = 0.1) -> np.ndarray:
    noise = rng.normal(0.0, spread, size=(seeds, len(SIZES)))
    return 3.0 * SIZES**exponent * np.exp(noise)


@pytest.mark.parametrize("seeds", [1, 5])
def test_scenario_29_the_interval_covers_the_exponent_as_often_as_it_claims(seeds: int) -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(2000):
        exponent = fit_power_law(SIZES, costs(rng, 1.05, seeds)).exponent
        assert exponent.low is not None
        assert exponent.high is not None
        hits += exponent.low <= 1.05 <= exponent.high
    assert 0.93 <= hits / 2000 <= 0.97


def test_an_exact_law_is_found_exactly() -> None:
    fit = fit_power_law(SIZES, 0.5 * SIZES**1.5)
    assert fit.exponent.mean == pytest.approx(1.5, abs=1e-12)
    assert fit.factor == pytest.approx(0.5, rel=1e-9)
    assert fit.residual == pytest.approx(0.0, abs=1e-12)


def test_scenario_29_two_sizes_are_refused_and_so_is_one_size_three_times() -> None:
    with pytest.raises(TooFewSizesError, match="at least 3 sizes; there are 2"):
        fit_power_law([1.0, 2.0], [1.0, 2.0])
    with pytest.raises(TooFewSizesError, match="there are 1"):
        fit_power_law([2.0, 2.0, 2.0], [1.0, 1.1, 0.9])


def test_costs_of_nothing_have_no_power_law() -> None:
    with pytest.raises(ValueError, match="above 0"):
        fit_power_law(SIZES, np.zeros(len(SIZES)))


def test_a_seed_with_a_missing_size_is_left_out() -> None:
    table = np.stack([SIZES**2, SIZES**2, SIZES**3])
    table[2, 4] = np.nan
    assert fit_power_law(SIZES, table).exponent.n == 2
    assert fit_power_law(SIZES, table).exponent.mean == pytest.approx(2.0)


def test_scenario_29_a_prediction_says_whether_it_extrapolates() -> None:
    fit = fit_power_law(SIZES, 2.0 * SIZES)
    assert fit.predict(1000.0) == (pytest.approx(2000.0), False)
    assert fit.predict(100_000.0) == (pytest.approx(200_000.0), True)
