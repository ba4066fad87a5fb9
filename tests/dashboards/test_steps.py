"""Curves as steps: frontiers, best within a size, and the sizes at which curves are compared."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

from dashboards.steps import best_within, checkpoints, frontier, measured, recalls_of, smallest_reaching
from tasks.summary import Curve, Interval, Point


def exact(number: float) -> Interval:
    return Interval(number, number, number, 3, "test")


def curve(pairs: list[tuple[float, float]], metric: str = "recall_all") -> Curve:
    points = tuple(
        Point({"place": i}, {"slots": exact(size), metric: exact(recall)}, {}, 3, 3, 0)
        for i, (size, recall) in enumerate(pairs)
    )
    return Curve("m", "m", points, {}, {})


pairs = st.lists(st.tuples(st.integers(1, 6).map(float), st.integers(0, 4).map(lambda k: k / 4)), max_size=12)


@given(pairs)
def test_the_frontier_over_recall_all_is_what_nothing_beats(drawn: list[tuple[float, float]]) -> None:
    def beaten(one: tuple[float, float]) -> bool:
        return any(size <= one[0] and recall >= one[1] and (size, recall) != one for size, recall in drawn)

    kept = frontier(measured(curve(drawn), "slots", "recall_all"), "slots", "recall_all")
    assert sorted((entry.size.mean, entry.recall.mean) for entry in kept) == sorted(
        pair for pair in drawn if not beaten(pair)
    )


@given(pairs, st.floats(0.5, 7))
def test_best_within_is_the_largest_recall_at_or_under_a_size(drawn: list[tuple[float, float]], size: float) -> None:
    found = best_within(measured(curve(drawn), "slots", "recall_all"), size)
    reachable = [recall for held, recall in drawn if held <= size]
    assert (found.recall.mean if found else None) == (max(reachable) if reachable else None)


def test_the_frontier_over_recall_is_the_one_that_the_points_carry(sample: ModuleType) -> None:
    line = sample.panel().curves[1]
    flipped = replace(
        line, points=tuple(replace(one, on_frontier={"slots": not one.on_frontier["slots"]}) for one in line.points)
    )
    for version in (line, flipped):
        kept = frontier(measured(version, "slots", "recall"), "slots", "recall")
        marked = [i for i, one in enumerate(version.points) if one.on_frontier["slots"]]
        assert [entry.number for entry in kept] == marked


def test_points_that_were_not_measured_are_left_out() -> None:
    drawn = curve([(16, 0.5), (32, float("nan"))])
    waiting = replace(drawn, points=(*drawn.points, Point({}, {}, {}, 3, 0, 0)))
    assert [entry.number for entry in measured(waiting, "slots", "recall_all")] == [0]


def test_the_target_is_met_by_the_smallest_sufficient_size() -> None:
    line = measured(curve([(64, 1.0), (32, 0.99), (16, 0.5)]), "slots", "recall_all")
    found = smallest_reaching(line, 0.99)
    assert found is not None
    assert found.size.mean == 32
    assert smallest_reaching(line, 1.5) is None


def test_a_budget_and_a_measured_size_just_above_it_are_compared_at_the_measured_size(sample: ModuleType) -> None:
    drawn = [curve([(32, 0.5), (64, 1.0)]), replace(curve([(64.03, 1.0)]), label="n")]
    panel = replace(sample.panel(), curves=tuple(drawn))
    assert checkpoints(panel, "slots", "recall_all") == (32, 64.03)
    assert all(best_within(measured(line, "slots", "recall_all"), 64.03) for line in drawn)


def test_sizes_in_a_dense_row_do_not_run_together(sample: ModuleType) -> None:
    panel = replace(sample.panel(), curves=(curve([(100 + 4 * i, 0.5) for i in range(30)]),))
    found = checkpoints(panel, "slots", "recall_all")
    assert len(found) == 8
    assert list(found) == sorted(found)


def test_recalls_are_those_that_were_measured(sample: ModuleType) -> None:
    assert recalls_of(sample.panel()) == ("recall", "recall_all")
    assert recalls_of(replace(sample.panel(), curves=(curve([(1, 1)]),))) == ("recall_all",)
    assert recalls_of(sample.unfinished().summary.panels[0]) == ()
