"""Predicted costs: known laws are found, intervals cover, and what was never measured is less sure."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.cost_law import predict_costs


def law(rng: np.random.Generator, count: int, scatter: float) -> tuple[list[dict[str, float | str]], np.ndarray]:
    tokens, budgets = 2.0 ** rng.integers(6, 13, count), 2.0 ** rng.integers(2, 8, count)
    words = rng.choice(["first", "last"], count)
    costs = 1e-6 * tokens**1.3 * budgets**0.4 * np.where(words == "last", 2.0, 1.0)
    sizes: list[dict[str, float | str]] = [
        {"tokens": float(n), "budget": float(b), "keep": str(w)} for n, b, w in zip(tokens, budgets, words, strict=True)
    ]
    return sizes, costs * np.exp(rng.normal(0.0, scatter, count))


def test_a_known_law_is_found() -> None:
    sizes, costs = law(np.random.default_rng(0), 60, 0.0)
    found = predict_costs(sizes, costs, sizes, np.ones(len(sizes)))
    np.testing.assert_allclose(found.each, costs, rtol=0.08)
    assert found.total == pytest.approx(costs.sum(), rel=0.03)
    assert found.beyond == ()


@pytest.mark.parametrize("count", [6, 20, 100])
def test_two_deviations_hold_the_total_about_95_times_in_100(count: int) -> None:
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        measured, costs = law(rng, count, 0.3)
        wanted, paid = law(rng, 50, 0.3)
        found = predict_costs(measured, costs, wanted, np.ones(50))
        spread = np.exp(1.96 * found.deviation / found.total)
        hits += found.total / spread <= paid.sum() <= found.total * spread
    assert 0.92 <= hits / 200 <= 1.0


def test_what_lies_beyond_is_named_and_less_sure() -> None:
    rng = np.random.default_rng(1)
    sizes, costs = law(rng, 60, 0.1)
    near = predict_costs(sizes, costs, [{"tokens": 512.0, "budget": 32.0, "keep": "first"}], [1.0])
    far = predict_costs(sizes, costs, [{"tokens": 2.0**20, "budget": 32.0, "keep": "majority", "dim": 8.0}], [1.0])
    assert near.beyond == ()
    assert far.beyond == ("dim", "keep=majority", "tokens")
    assert far.deviation / far.total > 3 * near.deviation / near.total


def test_one_measurement_predicts_by_what_is_usual() -> None:
    found = predict_costs([{"tokens": 100.0}], [2.0], [{"tokens": 200.0}], [10.0])
    assert 30.0 < found.total < 60.0
    assert found.deviation > 0.2 * found.total


def test_weights_count_how_often_each_is_paid_for() -> None:
    sizes, costs = law(np.random.default_rng(2), 30, 0.1)
    found = predict_costs(sizes, costs, sizes, np.arange(30.0))
    assert found.total == pytest.approx(float(found.each @ np.arange(30.0)))
