"""Comparisons paired by seed: against scipy and statsmodels, coverage of effect sizes, and what can be seen."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import gammaln

from tasks.comparisons import (
    benjamini_hochberg,
    compare,
    compare_all,
    detectable_difference,
    hedges_g,
    holm,
    paired_p,
)
from tasks.statistics import paired_values

shares = st.lists(st.floats(0, 1) | st.sampled_from([0.01, 0.05, 1.0]), min_size=1, max_size=12)


def samples(rng: np.random.Generator, shifts: list[float], seeds: int = 10, sd: float = 0.01) -> dict[str, dict]:
    """Mechanisms a, b, ... whose recalls share what is hard about a seed."""
    hardness = rng.normal(0.9, 0.05, seeds)
    return {
        name: dict(enumerate(hardness + shift + rng.normal(0, sd, seeds)))
        for name, shift in zip("abcdefgh", shifts, strict=False)
    }


def test_a_comparison_tells_difference_effect_superiority_and_what_could_be_seen() -> None:
    pair = samples(np.random.default_rng(0), [0.02, 0.0])
    one = compare("a", "b", pair["a"], pair["b"], margin=0.01)
    theirs = stats.ttest_rel(list(pair["a"].values()), list(pair["b"].values()))
    differences = np.array(list(pair["a"].values())) - np.array(list(pair["b"].values()))
    assert one.p == pytest.approx(theirs.pvalue, rel=1e-9)
    assert one.difference.low == pytest.approx(theirs.confidence_interval(0.95).low)
    assert one.effect is not None
    correction = 1 - 3 / (4 * 9 - 1)  # the usual approximation of the exact factor
    assert one.effect.mean == pytest.approx(differences.mean() / differences.std(ddof=1) * correction, rel=1e-3)
    assert one.superiority.mean == np.mean(differences > 0)
    assert (one.effect.n, one.superiority.n, one.difference.n) == (10, 10, 10)
    assert "Hedges" in one.effect.method
    assert "Wilson" in one.superiority.method


def test_scenario_27_a_comparison_uses_seeds_that_both_have_and_one_seed_is_undefined() -> None:
    both = compare("a", "b", {0: 0.9, 1: 0.8, 2: 0.7, 7: 0.1}, {0: 0.85, 1: 0.78, 2: 0.62, 9: 0.9}, 0.01)
    assert both.difference.mean == pytest.approx(0.05)
    assert (both.difference.n, both.superiority.n) == (3, 3)
    (alone,) = compare_all({"a": {3: 0.9}, "b": {3: 0.8}}, [("a", "b")], 0.01)
    assert (alone.p, alone.holm, alone.effect, alone.detectable, alone.difference.low) == (None,) * 5
    assert alone.verdict == "undefined: one seed"


def test_equal_differences_have_no_effect_size_and_rounding_does_not_make_one() -> None:
    a, b = {0: 0.9, 1: 0.8, 2: 0.7}, {0: 0.8, 1: 0.7, 2: 0.6}
    assert len(set(paired_values(a, b).tolist())) == 1
    one = compare("a", "b", a, b, 0.01)
    assert (one.effect, one.detectable, one.p) == (None, None, 0.25)
    assert compare("a", "a", a, a, 0.01).p == 1.0
    assert compare("a", "a", a, a, 0.01).superiority.mean == 0.5


def test_of_losses_the_lower_is_superior() -> None:
    a, b = {0: 1.0, 1: 1.0, 2: 3.0, 3: 2.0}, dict.fromkeys(range(4), 2.0)
    assert compare("a", "b", a, b, 0.01).superiority.mean == (1 + 0.5) / 4
    assert compare("a", "b", a, b, 0.01, better="minimize").superiority.mean == (2 + 0.5) / 4


def test_differences_of_0_alone_show_no_equality_by_themselves() -> None:
    a = {0: 0.9, 1: 0.8, 2: 0.7}
    far = {seed: value - 0.1 + 0.001 * seed for seed, value in a.items()}
    (unknown, apart) = compare_all({"a": a, "b": a, "c": far}, [("a", "b"), ("c", "a")], 0.01)
    assert (unknown.verdict, unknown.equal, unknown.holm) == ("undecided: no spread", None, 1.0)
    assert apart.verdict == "differ"
    assert apart.equal == apart.equivalence.p, "what was not tested is not counted"
    (few,) = compare_all({"a": a, "b": a}, [("a", "b")], 0.01, outcomes=5)
    assert (few.verdict, few.equal) == ("undecided", pytest.approx(0.99**15))
    (many,) = compare_all({"a": a, "b": a}, [("a", "b")], 0.01, outcomes=200)
    assert (many.verdict, many.equal) == ("equal", pytest.approx(0.99**600))
    assert many.difference.high == pytest.approx(1 - 0.025 ** (1 / 600))


def test_two_differences_have_no_effect_size() -> None:
    assert hedges_g(np.array([0.1, 0.2])) is None


@pytest.mark.parametrize("seeds", [5, 10, 30])
@pytest.mark.parametrize("effect", [0.0, 0.8, 3.0])
def test_intervals_of_effect_sizes_cover_95_percent(seeds: int, effect: float) -> None:
    """The correction scales estimate and ends alike, and so the effect they are of."""
    values = np.random.default_rng(1).normal(effect, 1.0, (2000, seeds))
    unbiased = np.exp(gammaln((seeds - 1) / 2) - gammaln((seeds - 2) / 2)) / np.sqrt((seeds - 1) / 2)
    inside = []
    for row in values:
        interval = hedges_g(row)
        assert interval is not None
        assert interval.low is not None
        assert interval.high is not None
        inside.append(interval.low <= effect * unbiased <= interval.high)
    assert 0.93 <= np.mean(inside) <= 0.97


@pytest.mark.parametrize("seeds", [5, 20])
def test_hedges_g_is_unbiased_where_cohens_d_is_not(seeds: int) -> None:
    values = np.random.default_rng(2).normal(1.0, 1.0, (4000, seeds))
    found = [interval.mean for row in values if (interval := hedges_g(row)) is not None]
    raw = values.mean(axis=1) / values.std(axis=1, ddof=1)
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - 1.0) < 4 * error
    assert np.mean(raw) - 1.0 > 4 * error


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e9])
def test_an_effect_without_bounds_is_found_at_once(scale: float) -> None:
    values = scale + np.random.default_rng(0).normal(0.0, 1.0, 10)
    interval = hedges_g(values)
    assert interval is not None
    low, high = stats.chi2.ppf([0.025, 0.975], 9)
    assert interval.low == pytest.approx(interval.mean * np.sqrt(low / 9), rel=2e-3)
    assert interval.high == pytest.approx(interval.mean * np.sqrt(high / 9), rel=2e-3)


def test_the_detectable_difference_is_seen_four_times_in_five() -> None:
    """The power sentence, by simulation: the deviation is known to the planner, estimated by each test."""
    planned = np.random.default_rng(0).normal(0.0, 1.0, 10)
    planned *= 0.012 / planned.std(ddof=1)
    shift = detectable_difference(planned)
    assert shift is not None
    values = np.random.default_rng(1).normal(shift, 0.012, (4000, 10))
    seen = stats.ttest_1samp(values, 0.0, axis=1).pvalue < 0.05
    assert np.mean(seen) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("seeds", [3, 10, 50])
def test_the_detectable_difference_is_that_of_statsmodels(seeds: int) -> None:
    power = pytest.importorskip("statsmodels.stats.power")
    values = np.random.default_rng(0).normal(0.0, 0.3, seeds)
    theirs = power.TTestPower().solve_power(nobs=seeds, alpha=0.05, power=0.8) * values.std(ddof=1)
    assert detectable_difference(values) == pytest.approx(theirs, rel=1e-4)


@given(shares)
def test_adjusted_p_values_equal_their_definitions(p: list[float]) -> None:
    m = len(p)
    ranks = sorted(range(m), key=lambda i: p[i])
    for position, index in enumerate(ranks):
        by_holm = max(min(1.0, (m - k) * p[ranks[k]]) for k in range(position + 1))
        by_discovery = min(min(1.0, m / (k + 1) * p[ranks[k]]) for k in range(position, m))
        assert holm(p)[index] == pytest.approx(by_holm)
        assert benjamini_hochberg(p)[index] == pytest.approx(by_discovery)


@given(shares)
def test_benjamini_hochberg_is_that_of_scipy(p: list[float]) -> None:
    np.testing.assert_allclose(benjamini_hochberg(p), stats.false_discovery_control(p), rtol=1e-12)


def test_nothing_to_adjust() -> None:
    assert holm([]).tolist() == benjamini_hochberg([]).tolist() == []
    assert compare_all({"a": {0: 1.0}, "b": {1: 1.0}}, [("a", "b")], 0.01) == []


def test_holm_keeps_false_findings_among_15_pairs_below_5_percent() -> None:
    """Six equal mechanisms: unadjusted, one sweep in three would claim a difference."""
    rng = np.random.default_rng(3)
    raw, adjusted = [], []
    for _ in range(600):
        values = rng.normal(0.0, 1.0, (6, 10))
        p = [paired_p(values[i] - values[j]) for i, j in combinations(range(6), 2)]
        raw.append(min(p) < 0.05)  # type: ignore[type-var]
        adjusted.append(holm(p).min() < 0.05)
    assert np.mean(raw) > 0.25
    assert np.mean(adjusted) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 600)


def test_verdicts_follow_the_adjusted_values() -> None:
    found = samples(np.random.default_rng(5), [0.0, 0.001, 0.1, 0.012], seeds=12, sd=0.002)
    noisy = {**found, "e": {seed: value + 0.04 * (-1) ** seed for seed, value in found["a"].items()}}
    compared = compare_all(noisy, combinations(noisy, 2), 0.01)
    assert len(compared) == 10
    verdicts = {(one.a, one.b): one.verdict for one in compared}
    assert verdicts["a", "c"] == "differ"
    assert verdicts["a", "e"] == "undecided"
    assert verdicts["a", "b"] in ("equal", "differ by less than 0.01")
    for one in compared:
        assert one.p is not None
        assert one.holm is not None
        assert one.discovery is not None
        assert one.p <= one.discovery <= one.holm <= 1.0
