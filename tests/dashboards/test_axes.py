"""Axes of charts: every number has its place, and ticks are numbers a reader expects."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.axes import axis_title, chart_axis, tick_text

NUMBERS = st.lists(st.floats(-1e12, 1e12, allow_subnormal=False), min_size=1, max_size=20)
POSITIVE = st.lists(st.floats(1e-9, 1e12), min_size=1, max_size=20)


@given(NUMBERS)
def test_a_linear_axis_shows_every_number_in_order(numbers: list[float]) -> None:
    axis = chart_axis(numbers, log=False)
    places = [axis(number) for number in sorted(numbers)]
    assert places == sorted(places)
    assert 0 <= places[0] <= places[-1] <= 1
    assert axis.low <= min(numbers)
    assert max(numbers) <= axis.high


@given(POSITIVE)
def test_equal_ratios_are_equal_distances_on_a_log_axis(numbers: list[float]) -> None:
    axis = chart_axis(numbers, log=True)
    middle = math.sqrt(axis.low) * math.sqrt(axis.high)
    assert axis(middle) == pytest.approx(0.5, abs=1e-6)
    assert axis.low < min(numbers)
    assert max(numbers) < axis.high


@given(st.one_of(NUMBERS.map(lambda numbers: (numbers, False)), POSITIVE.map(lambda numbers: (numbers, True))))
def test_ticks_lie_inside_and_are_neither_few_nor_many(case: tuple[list[float], bool]) -> None:
    numbers, log = case
    axis = chart_axis(numbers, log)
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks)
    assert all(one < other for one, other in pairwise(axis.ticks))
    spread = max(numbers) - min(numbers)
    if spread > 1e-6 * max(map(abs, numbers)):
        assert 2 <= len(axis.ticks) <= 12


def test_ticks_are_those_that_readers_expect() -> None:
    assert chart_axis([0.0, 1.0], log=False).ticks == pytest.approx((0, 0.2, 0.4, 0.6, 0.8, 1))
    assert chart_axis([0.0, 990.0], log=False).ticks == (0, 200, 400, 600, 800, 1000)
    assert chart_axis([2.0**power for power in range(9, 18)], log=True).ticks[:2] == (512, 1024)
    assert chart_axis([0.001, 5000.0], log=True).ticks == pytest.approx((1e-3, 1e-2, 0.1, 1, 10, 100, 1000, 10000))
    assert chart_axis([3.0, 40.0], log=True).ticks == (5, 10, 20)


def test_numbers_near_0_start_at_0_and_others_do_not() -> None:
    assert chart_axis([0.2, 0.9], log=False).low == 0
    assert chart_axis([0.8, 0.9], log=False).low > 0.7
    assert chart_axis([-0.9, -0.2], log=False).high == 0


def test_what_cannot_be_shown_has_no_part() -> None:
    axis = chart_axis([-5.0, 0.0, math.nan, math.inf, 10.0, 1000.0], log=True)
    assert 5 < axis.low < 10
    assert [axis.shows(number) for number in (-1.0, 0.0, math.nan, math.inf, 1.0)] == [False] * 4 + [True]
    assert chart_axis([math.nan], log=False).ticks == ()
    assert chart_axis([], log=True).ticks == ()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (0.1 + 0.2, "0.3"),
        (131072, "131,072"),
        (-20.0, "-20"),
        (1e9, "1e9"),
        (2.5e-7, "2.5e-7"),
        (1e12, "1e12"),
    ],
)
def test_tick_texts(number: float, text: str) -> None:
    assert tick_text(number) == text


def test_a_log_axis_says_so() -> None:
    assert axis_title("seconds", log=True) == "seconds (log scale)"
    assert axis_title("seconds", log=False) == "seconds"
