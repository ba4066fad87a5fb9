"""Dominance of frontiers: over a stated range, paired by seed, beyond chance."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.dominance import SizedCell, dominance, steps

SIZES = (16.0, 32.0, 64.0)


def frontier(recalls: list[float], noise: np.ndarray, sizes: tuple[float, ...] = SIZES) -> list[SizedCell]:
    return [
        SizedCell(size, dict(enumerate((recall + noise[i]).tolist())))
        for i, (size, recall) in enumerate(zip(sizes, recalls, strict=True))
    ]


def noise(seed: int, seeds: int = 10, sd: float = 0.003) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, sd, (3, seeds))


def test_above_somewhere_and_below_nowhere_dominates() -> None:
    result = dominance(frontier([0.55, 0.8, 1.0], noise(0)), frontier([0.5, 0.75, 0.9], noise(1)), 16, 64)
    assert result.verdict == "dominates"
    assert result.sizes == SIZES
    assert result.differences[2].mean == pytest.approx(0.1, abs=0.01)
    assert "paired by seed" in result.differences[0].method
    assert max(result.p) < 0.05
    assert dominance(frontier([0.5, 0.75, 0.9], noise(1)), frontier([0.55, 0.8, 1.0], noise(0)), 16, 64).verdict == (
        "dominated"
    )


def test_the_range_decides() -> None:
    over, under = frontier([0.3, 0.8, 1.0], noise(0)), frontier([0.5, 0.75, 0.9], noise(1))
    assert dominance(over, under, 16, 64).verdict == "crosses"
    assert dominance(over, under, 32, 64).verdict == "dominates"
    assert dominance(over, under, 16, 31).verdict == "dominated"


def test_a_frontier_keeps_its_best_where_larger_cells_are_worse() -> None:
    over = frontier([0.9, 0.2, 1.0], np.zeros((3, 4)))
    under = frontier([0.5, 0.6], np.zeros((3, 4)), (16.0, 48.0))
    found = steps(over, under, 16, 64)
    assert [(size, a[0], b[0]) for size, a, b in found] == [
        (16, 0.9, 0.5),
        (32, 0.9, 0.5),
        (48, 0.9, 0.6),
        (64, 1.0, 0.6),
    ]
    assert [size for size, _, _ in steps(over, under, 20, 50)] == [20, 32, 48]


def test_equal_frontiers_dominate_each_other_less_than_one_time_in_twenty() -> None:
    rng = np.random.default_rng(0)
    verdicts = []
    for _ in range(1000):
        a, b = (frontier([0.5, 0.7, 0.9], rng.normal(0, 0.003, (3, 8))) for _ in range(2))
        verdicts.append(dominance(a, b, 16, 64).verdict)
    assert np.mean([verdict != "undecided" for verdict in verdicts]) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)


def test_seeds_that_are_hard_for_both_do_not_hide_a_difference() -> None:
    hardness = np.random.default_rng(0).normal(0, 0.1, 10)
    over = frontier([0.5, 0.7, 0.8], hardness + noise(1))
    under = frontier([0.49, 0.69, 0.79], hardness + noise(2))
    assert dominance(over, under, 16, 64).verdict == "dominates"


def test_one_seed_decides_nothing() -> None:
    one = dominance(frontier([0.5, 0.7, 0.9], np.zeros((3, 1))), frontier([0.1, 0.2, 0.3], np.zeros((3, 1))), 16, 64)
    assert (one.verdict, one.p) == ("undefined: one seed", ())


def test_a_range_that_a_frontier_does_not_reach_is_refused() -> None:
    cells = frontier([0.5, 0.7, 0.9], np.zeros((3, 2)))
    with pytest.raises(ValueError, match="no cell of at most 8"):
        dominance(cells, cells, 8, 64)
    with pytest.raises(ValueError, match="low ≤ high"):
        dominance(cells, cells, 64, 16)
    with pytest.raises(ValueError, match="seeds that both sides have"):
        dominance(cells, [SizedCell(16, {7: 0.5})], 16, 16)
