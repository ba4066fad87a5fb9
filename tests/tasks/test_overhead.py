"""Power laws on top of an overhead: known exponents are found, with intervals that cover, where plain fits fail."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from tasks.overhead import estimate, fit_offset_power_law
from tasks.scaling import TooFewSizesError, fit_power_law

SIZES = 2.0 ** np.arange(9, 17)


def costs(rng: np.random.Generator, overhead: float, exponent: float, *shape: int) -> np.ndarray:
    """Costs [*shape, 8]; the overhead is in units of the growing part at the smallest size."""
    law = overhead + (SIZES / SIZES[0]) ** exponent
    return law * np.exp(rng.normal(0.0, 0.05, size=(*shape, len(SIZES))))


@pytest.mark.parametrize(("overhead", "exponent"), [(3.0, 1.0), (10.0, 1.0), (0.3, 1.5)])
@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_intervals_cover_95_percent(seeds: int, overhead: float, exponent: float) -> None:
    cases = costs(np.random.default_rng(0), overhead, exponent, 2000, seeds)
    fits, errors = estimate(np.log(SIZES / SIZES[0]), np.log(cases))
    half = stats.t.ppf(0.975, seeds - 1 if seeds > 1 else len(SIZES) - 3) * errors
    assert 0.93 <= np.mean(np.abs(fits[:, 2] - exponent) <= half[:, 1]) <= 0.97
    if overhead > 1:
        assert 0.93 <= np.mean(np.abs(np.exp(fits[:, 0]) - overhead) <= half[:, 0]) <= 0.97


@pytest.mark.parametrize("seeds", [1, 5])
def test_intervals_cover_at_least_that_often_where_there_is_hardly_any_overhead(seeds: int) -> None:
    """Overheads cannot be below 0, so that half of the errors of exponents are not made at all."""
    fits, errors = estimate(np.log(SIZES / SIZES[0]), np.log(costs(np.random.default_rng(0), 0.01, 1.0, 2000, seeds)))
    half = stats.t.ppf(0.975, seeds - 1 if seeds > 1 else len(SIZES) - 3) * errors
    assert np.mean(np.abs(fits[:, 2] - 1.0) <= half[:, 1]) >= 0.93


def test_cases_at_once_equal_each_alone() -> None:
    cases = costs(np.random.default_rng(0), 3.0, 1.0, 20, 4)
    x = np.log(SIZES) - np.log(SIZES).mean()
    fits, errors = estimate(x, np.log(cases))
    for index in (0, 7, 19):
        alone = fit_offset_power_law(SIZES, cases[index])
        assert alone.exponent.mean == pytest.approx(fits[index, 2], rel=1e-5)
        assert alone.overhead.mean == pytest.approx(np.exp(fits[index, 0]), rel=1e-4)
        assert alone.exponent.high == pytest.approx(fits[index, 2] + stats.t.ppf(0.975, 3) * errors[index, 1], rel=1e-4)


def test_an_exact_law_is_found_exactly() -> None:
    fit = fit_offset_power_law(SIZES, 40.0 + 0.03 * SIZES**1.2)
    assert fit.exponent.mean == pytest.approx(1.2, abs=1e-6)
    assert fit.overhead.mean == pytest.approx(40.0, rel=1e-5)
    assert fit.factor == pytest.approx(0.03, rel=1e-5)
    assert fit.residual == pytest.approx(0.0, abs=1e-6)


def test_without_overhead_it_is_the_plain_power_law() -> None:
    values = 0.03 * SIZES**1.2
    fit, plain = fit_offset_power_law(SIZES, values), fit_power_law(SIZES, values)
    assert fit.exponent.mean == pytest.approx(plain.exponent.mean, abs=1e-3)
    assert fit.overhead.mean < 0.01 * values.min()


@pytest.mark.parametrize("seeds", [1, 4])
def test_what_the_search_leaves_of_an_overhead_is_none(seeds: int) -> None:
    """A cost that grows ever more slowly has none: the best fit is at the border."""
    x = np.log(SIZES / SIZES[0])
    bent = np.exp(x - 0.01 * x**2) * np.exp(0.01 * np.arange(seeds))[:, None]
    fit = fit_offset_power_law(SIZES, bent)
    assert (fit.overhead.mean, fit.overhead.low) == (0.0, 0.0)


def test_the_overhead_explains_the_exponent_of_figure_7() -> None:
    """Attention's read times as read off arXiv 2607.09889, Fig. 7: a plain fit gives about .72, linear cost is 1."""
    tokens, milliseconds = 2.0 ** np.arange(9, 15), [0.016, 0.025, 0.0405, 0.061, 0.104, 0.195]
    assert fit_power_law(tokens, milliseconds).exponent.mean == pytest.approx(0.72, abs=0.02)
    fit = fit_offset_power_law(tokens, milliseconds)
    assert fit.exponent.low is not None
    assert fit.exponent.high is not None
    assert fit.exponent.low < 1.0 < fit.exponent.high
    assert fit.overhead.mean > 0.004


def test_an_overhead_is_not_below_0() -> None:
    without = np.random.default_rng(1)
    assert fit_offset_power_law(SIZES, costs(without, 0.0, 1.0, 5)).overhead.low == 0.0


@example([38140.0, 1.0, 1.0, 33448.0, 1.0, 352411.0, 1.0, 34026.0], 1)  # so steep that the factor is 0 in floats
@given(
    st.lists(st.floats(1e-6, 1e6) | st.just(1.0), min_size=8, max_size=8),
    st.sampled_from([1, 3]),
)
def test_any_costs_have_a_fit_at_least_as_good_as_the_plain_law(values: list[float], seeds: int) -> None:
    table = np.array(values) * np.ones((seeds, 1)) * np.exp(0.01 * np.arange(seeds))[:, None]
    fit, plain = fit_offset_power_law(SIZES, table), fit_power_law(SIZES, table)
    assert np.isfinite([fit.exponent.mean, fit.exponent.low, fit.exponent.high, fit.overhead.mean, fit.factor]).all()  # type: ignore[list-item]
    log_means = np.log(table).mean(axis=0)
    losses = [
        sum((np.log(law.predict(x)[0]) - y) ** 2 for x, y in zip(SIZES, log_means, strict=True)) for law in (fit, plain)
    ]
    assert losses[0] <= losses[1] * 1.05 + 1e-6


def test_three_sizes_are_refused_and_missing_seeds_left_out() -> None:
    with pytest.raises(TooFewSizesError, match="at least 4 sizes; there are 3"):
        fit_offset_power_law([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    table = costs(np.random.default_rng(0), 3.0, 1.0, 3)
    table[2, 1] = np.nan
    assert fit_offset_power_law(SIZES, table).exponent.n == 2


def test_a_prediction_says_whether_it_extrapolates() -> None:
    fit = fit_offset_power_law(SIZES, 40.0 + 0.5 * SIZES)
    assert fit.predict(1000.0) == (pytest.approx(540.0, rel=1e-4), False)
    assert fit.predict(1e6)[1] is True
