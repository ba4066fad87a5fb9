"""Sizes that vary, one at a time: every set of workloads that differ in one size alone is found."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tasks.axes import Axis, axes_of, ladders

Steps = st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True)


@given(items=Steps, repeats=Steps, dims=Steps)
def test_members_of_a_ladder_differ_in_one_axis_alone(items: list[int], repeats: list[int], dims: list[int]) -> None:
    workloads = [
        {"tokens": float(k * r), "items": float(k), "repeats": float(r), "dim": float(d)}
        for k, r, d in product(items, repeats, dims)
    ]
    axes = axes_of(workloads)
    for ladder in ladders(workloads):
        members = [workloads[index] for index in ladder.members]
        sizes = [member[ladder.axis.name] for member in members]
        assert sizes == sorted(set(sizes))
        for other in axes:
            if other != ladder.axis:
                assert len({member[other.name] for member in members}) == 1
    assert {ladder.axis for ladder in ladders(workloads)} == set(axes)


def test_a_field_that_only_sets_the_tokens_is_no_axis_of_its_own() -> None:
    by_repeats = [{"tokens": 8.0 * r, "items": 8.0, "repeats": float(r)} for r in (1, 2, 4)]
    assert axes_of(by_repeats) == [Axis("tokens", ("repeats",))]
    assert axes_of(by_repeats)[0].label == "tokens (by repeats)"
    assert axes_of([{"tokens": 8.0, "dim": 16.0}, {"tokens": 8.0, "dim": 32.0}]) == [Axis("dim")]


def test_sets_too_small_for_a_fit_are_left_out_where_others_are_large_enough() -> None:
    full = [{"tokens": n, "dim": 8.0} for n in (1.0, 2.0, 4.0)]
    tokens, dims = ladders([*full, {"tokens": 1.0, "dim": 16.0}])
    assert (tokens.fixed, tokens.members) == ("dim 8", (0, 1, 2))
    assert (dims.axis.name, dims.members) == ("dim", (0, 3))
    assert ladders([]) == []
