"""The geometry of frontiers, against hand values, brute force and moocore."""

from __future__ import annotations

import math

import moocore
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.staircase import (
    area_under_curve,
    hypervolume,
    hypervolume_history,
    hypervolume_under,
    knee,
    on_frontier,
    staircase,
)

NAN = float("nan")

few_values = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
point = st.tuples(st.sampled_from([0.0, 1.0, 2.0, 4.0, 8.0, 16.0]), few_values)
clouds = st.lists(point, min_size=1, max_size=12)


def test_staircase_is_the_best_recall_at_or_under_each_size() -> None:
    sizes, best = staircase([64, 16, 32], [0.9, 0.5, 0.4])
    assert sizes.tolist() == [16, 32, 64]
    assert best.tolist() == [0.5, 0.5, 0.9]


def test_points_that_do_not_exist_are_at_infinity_and_add_nothing() -> None:
    sizes, best = staircase([[16, NAN, 8], [1, 2, 3]], [[0.5, 1.0, NAN], [0.1, 0.2, 0.3]])
    assert sizes.tolist() == [[16, math.inf, math.inf], [1, 2, 3]]
    assert best.tolist() == [[0.5, 0.5, 0.5], [0.1, 0.2, 0.3]]


def test_scenario_28_dominated_points_are_off_the_frontier_and_ties_stay_on() -> None:
    sizes = [16, 16, 32, 32, 64, 64]
    recalls = [0.5, 0.5, 0.5, 0.7, 0.6, 0.7]
    assert on_frontier(sizes, recalls) == [True, True, False, True, False, False]


def test_ties_survive_the_rounding_of_means() -> None:
    assert 0.1 + 0.2 != 0.3
    assert on_frontier([16, 16, 16 + 1e-14], [0.3, 0.1 + 0.2, 0.3]) == [True, True, True]


def test_a_point_without_a_number_is_on_no_frontier() -> None:
    assert on_frontier([16, NAN, 8], [0.5, 0.9, NAN]) == [True, False, False]
    assert on_frontier([], []) == []


@given(clouds)
def test_frontier_equals_its_definition(points: list[tuple[float, float]]) -> None:
    def dominated(size: float, recall: float) -> bool:
        return any(s <= size and r >= recall and (s < size or r > recall) for s, r in points)

    sizes, recalls = zip(*points, strict=True)
    assert on_frontier(sizes, recalls) == [not dominated(*p) for p in points]


def test_scenario_28_hypervolume_of_three_points_by_hand() -> None:
    # Rectangles to the reference (1, 1): 0.75 × 0.4, and 0.5 × 0.3 and 0.25 × 0.2 on top of it.
    assert hypervolume([[0.25, 0.6], [0.5, 0.3], [0.75, 0.1]], [1, 1]) == pytest.approx(0.3 + 0.15 + 0.05)
    assert hypervolume([[0, 1], [1, 0], [0.5, 0.5]], [2, 2]) == pytest.approx(3.25)


def test_scenario_28_hypervolume_needs_a_reference_and_ignores_what_lies_beyond() -> None:
    with pytest.raises(TypeError):
        hypervolume([[0.5, 0.5]])  # type: ignore[call-arg]
    assert hypervolume([[0.5, 0.5], [1.5, 0.0], [0.2, 1.0]], [1, 1]) == pytest.approx(0.25)
    assert hypervolume([], [1, 1]) == 0.0


def test_hypervolume_of_a_curve_by_hand() -> None:
    # F is 0.5 on 64..128 and 1 on 128..256, of a stream of 256 tokens.
    assert hypervolume_under([64, 128], [0.5, 1.0], 256) == pytest.approx(0.5 * 0.25 + 1.0 * 0.5)
    assert hypervolume_under([256], [1.0], 256) == 0.0
    assert hypervolume_under([0], [0.25], 256) == 0.25


@given(clouds, st.sampled_from([3.0, 8.0, 20.0]))
def test_hypervolume_of_a_curve_equals_moocore(points: list[tuple[float, float]], reference: float) -> None:
    sizes, recalls = np.array(points).T
    losses = np.stack([sizes / reference, 1 - recalls], axis=1)
    missing = [NAN]
    ours = hypervolume_under([*sizes, *missing], [*recalls, 1.0], reference)
    assert ours == pytest.approx(hypervolume(losses, [1, 1]), abs=1e-12)


@pytest.mark.parametrize("objectives", [1, 2, 3])
def test_hypervolume_history_is_that_of_moocore_on_random_trials(objectives: int) -> None:
    rng = np.random.default_rng(objectives)
    for _ in range(20):
        points = rng.random((40, objectives)) * 1.2
        points[rng.random(40) < 0.1] = NAN
        points[rng.random(40) < 0.3] = np.round(points[0], 1)
        history = hypervolume_history(points, np.ones(objectives))
        there = [points[: trial + 1][~np.isnan(points[: trial + 1]).any(axis=1)] for trial in range(40)]
        expected = [moocore.hypervolume(some, ref=np.ones(objectives)) if len(some) else 0.0 for some in there]
        np.testing.assert_allclose(history, expected, atol=1e-12)
        assert (np.diff(history) >= 0).all()


def test_hypervolume_equals_the_share_of_random_points_that_are_dominated() -> None:
    front = np.random.default_rng(0).random((12, 2))
    anywhere = np.random.default_rng(1).random((200_000, 2))
    dominated = (front[:, None] <= anywhere).all(axis=-1).any(axis=0)
    assert hypervolume(front, [1, 1]) == pytest.approx(dominated.mean(), abs=0.005)


def test_the_knee_by_hand() -> None:
    # Over log2 size 4, 5, 6, 8 the line rises 0.5 from 0.5; at 5 the point is 0.3 - 0.125 above it, at 6 0.35 - 0.25.
    assert knee([16, 32, 64, 256], [0.5, 0.8, 0.85, 1.0]) == 1
    assert knee([256, 64, 16, 32, 32, 40], [1.0, 0.85, 0.5, 0.8, 0.8, 0.7]) == 3


def test_a_line_two_points_and_a_curve_that_sags_have_no_knee() -> None:
    assert knee([16, 32, 64], [0.25, 0.5, 0.75]) is None
    assert knee([16, 64], [0.5, 1.0]) is None
    assert knee([16, 32, 64], [0.5, 0.55, 1.0]) is None
    assert knee([0, 32, 64], [0.1, 0.9, 1.0]) is None
    assert knee([], []) is None


def test_the_knee_is_that_of_kneed() -> None:
    kneed = pytest.importorskip("kneed")
    rng = np.random.default_rng(0)
    for _ in range(50):
        x = np.arange(20.0)
        y = np.cumsum(np.sort(rng.exponential(1.0, 20))[::-1])
        theirs = kneed.KneeLocator(x, y, S=0, curve="concave", direction="increasing").knee
        assert knee((2.0**x).tolist(), y.tolist()) == int(theirs)


def test_area_by_hand() -> None:
    # On log2 size 4..8: nothing below 2^5, then 0.5 for one octave, then 1 for two.
    assert area_under_curve([32, 64], [0.5, 1.0], 16, 256) == pytest.approx((0 + 0.5 + 2) / 4)


def test_area_counts_smaller_sizes_from_the_lower_end_and_larger_ones_not_at_all() -> None:
    assert area_under_curve([0, 8, 512], [0.25, 0.5, 1.0], 16, 256) == pytest.approx(0.5)
    assert area_under_curve([512], [1.0], 16, 256) == 0.0
    assert area_under_curve([256], [1.0], 16, 256) == 0.0


@pytest.mark.parametrize(("low", "high"), [(0, 8), (8, 8), (16, 8), (1, math.inf), (NAN, 8), (-1, 8)])
def test_area_needs_a_range(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="0 < low < high"):
        area_under_curve([4], [0.5], low, high)


@given(clouds)
def test_area_equals_a_riemann_sum(points: list[tuple[float, float]]) -> None:
    sizes, recalls = np.array(points).T
    centres = np.exp2((np.arange(1024) + 0.5) / 1024 * 4)  # 1..16, no step inside a cell
    best = [max((r for s, r in points if s <= b), default=0.0) for b in centres]
    assert area_under_curve(sizes, recalls, 1, 16) == pytest.approx(np.mean(best), abs=1e-9)


def test_many_curves_at_once_equal_one_by_one() -> None:
    rng = np.random.default_rng(0)
    sizes, recalls = rng.integers(1, 64, (50, 7)).astype(float), rng.random((50, 7))
    sizes[rng.random((50, 7)) < 0.2] = NAN
    for together, alone in (
        (
            hypervolume_under(sizes, recalls, 64),
            [hypervolume_under(*row, 64) for row in zip(sizes, recalls, strict=True)],
        ),
        (
            area_under_curve(sizes, recalls, 2, 50),
            [area_under_curve(*row, 2, 50) for row in zip(sizes, recalls, strict=True)],
        ),
    ):
        np.testing.assert_array_equal(together, alone)
