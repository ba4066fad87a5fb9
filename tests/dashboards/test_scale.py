"""The size axis shows every size, in order, with ticks that can be read."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dashboards.scale import MOST_TICKS, size_scale, with_unit

sizes = st.lists(st.floats(0.5, 1e12), min_size=1, max_size=20)


@given(sizes)
def test_every_size_lies_inside_and_order_is_kept(values: list[float]) -> None:
    scale = size_scale(values)
    places = [scale(value) for value in sorted(values)]
    assert all(0 < place < 1 for place in places)
    assert all(one <= other for one, other in pairwise(places))


@given(sizes)
def test_ticks_lie_inside_and_are_neither_few_nor_many(values: list[float]) -> None:
    scale = size_scale(values)
    assert all(scale.low <= tick <= scale.high for tick in scale.ticks)
    assert 2 <= len(scale.ticks) <= MOST_TICKS + 2
    assert list(scale.ticks) == sorted(set(scale.ticks))


def test_budgets_get_the_ticks_that_their_readers_expect() -> None:
    assert size_scale([16, 24, 64, 256]).ticks == (16, 32, 64, 128, 256)


def test_sizes_that_a_log_axis_cannot_show_do_not_stretch_it() -> None:
    assert size_scale([0.0, -1.0, 16, 256]) == size_scale([16, 256])


def test_no_size_gives_an_axis_without_ticks() -> None:
    assert size_scale([]).ticks == ()
    assert size_scale([0.0]).ticks == ()


def test_units() -> None:
    assert with_unit("slots", "1") == "1 slot"
    assert with_unit("slots", "64") == "64 slots"
    assert with_unit("bytes", "8 KiB") == "8 KiB"
