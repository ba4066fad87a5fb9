"""Wilson's interval, against scipy, and how often it covers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tasks.proportions import wilson_interval


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_is_that_of_scipy(count_of: tuple[int, int]) -> None:
    count, outcomes = count_of
    interval = wilson_interval(count, outcomes)
    theirs = stats.binomtest(count, outcomes).proportion_ci(0.95, "wilson")
    assert interval.mean == pytest.approx(count / outcomes)
    assert (interval.low, interval.high) == (pytest.approx(theirs.low, abs=1e-12), pytest.approx(theirs.high))
    assert interval.n == outcomes


@pytest.mark.parametrize("share", [0.3, 0.5, 0.83, 0.92, 0.98])
def test_intervals_cover_95_percent(share: float) -> None:
    counts = np.random.default_rng(0).binomial(300, share, 2000).tolist()
    known = {count: wilson_interval(count, 300) for count in set(counts)}
    inside = [known[count].low <= share <= known[count].high for count in counts]  # type: ignore[operator]
    assert 0.93 <= np.mean(inside) <= 0.97


def test_all_and_none_reach_the_end_and_say_how_many() -> None:
    assert wilson_interval(10, 10).high == 1.0
    assert wilson_interval(0, 10).low == 0.0
    assert wilson_interval(0, 10).high == pytest.approx(0.2775, abs=1e-4)
    assert wilson_interval(3, 10, "seeds").method == "Wilson score over 10 seeds"


@pytest.mark.parametrize(("count", "outcomes"), [(0, 0), (-1, 5), (6, 5), (float("nan"), 5)])
def test_what_is_not_a_share_is_refused(count: float, outcomes: int) -> None:
    with pytest.raises(ValueError, match="0 ≤ count ≤ outcomes"):
        wilson_interval(count, outcomes)


def test_one_outcome_is_no_plural() -> None:
    assert wilson_interval(1, 1).method == "Wilson score over 1 outcome"
    assert wilson_interval(1, 2, "seeds").method == "Wilson score over 2 seeds"
