"""Which proposals are given more seeds."""

from __future__ import annotations

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.racing import Race, looks, signed_rank_p
from tasks.search import Bound, Goal

RECALL = Goal({"recall": "maximize"})


def known(values: list[float], name: str = "recall") -> dict[str, dict[int, float]]:
    return {name: dict(enumerate(values))}


def test_seeds_double_at_each_look_up_to_all() -> None:
    assert looks(5, 20) == [5, 10, 20]
    assert looks(5, 12) == [5, 10, 12]
    assert looks(5, 5) == looks(8, 5) == [5]


def test_what_is_worse_on_every_seed_is_stopped_and_what_may_be_better_is_not() -> None:
    race = Race(RECALL, 0.1)
    best = known([0.8, 0.82, 0.81, 0.84, 0.8])
    worse = known([0.7, 0.71, 0.75, 0.7, 0.72])
    mixed = known([0.7, 0.9, 0.81, 0.95, 0.78])
    assert race.stops(worse, [best], range(5))
    assert not race.stops(mixed, [best], range(5))
    assert not race.stops(best, [worse], range(5))
    assert not race.stops(best, [best], range(5))
    assert not race.stops(worse, [], range(5))


def test_with_several_objectives_a_rival_must_be_better_in_each() -> None:
    race = Race(Goal({"recall": "maximize", "bytes": "minimize"}), 0.1)
    rival = {**known([0.8] * 5), **known([100.0] * 5, "bytes")}
    smaller = {**known([0.7] * 5), **known([90.0] * 5, "bytes")}
    dominated = {**known([0.7] * 5), **known([110.0] * 5, "bytes")}
    assert not race.stops(smaller, [rival], range(5))
    assert race.stops(dominated, [rival], range(5))


def test_a_proposal_beyond_a_bound_is_stopped_once_a_feasible_one_is_known() -> None:
    race = Race(Goal({"recall": "maximize"}, {"slots": Bound(at_most=18)}), 0.1)
    feasible = {**known([0.6] * 5), **known([17.0] * 5, "slots")}
    beyond = {**known([0.9] * 5), **known([19.0] * 5, "slots")}
    assert not race.stops(beyond, [], range(5))
    assert race.stops(beyond, [feasible], range(5))
    assert not race.stops(feasible, [beyond], range(5)), "what is not feasible beats nobody"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(5, 14), st.sampled_from([0.02, 0.1, 0.3]), st.booleans())
def test_one_objective_is_judged_as_by_optunas_wilcoxon_pruner(seed: int, n: int, p: float, rounded: bool) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    draws = np.random.default_rng(seed)
    best, other = draws.normal(0.8, 0.05, n), draws.normal(0.77, 0.05, n)
    if rounded:  # ties, and differences of 0
        best, other = best.round(1), other.round(1)
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.WilcoxonPruner(p_threshold=p))
    first = study.ask()
    for step, value in enumerate(best):
        first.report(float(value), step)
    study.tell(first, float(best.mean()))
    second = study.ask()
    for step, value in enumerate(other):
        second.report(float(value), step)
    ours = Race(RECALL, p).stops(known(other.tolist()), [known(best.tolist())], range(n))
    assert ours == second.should_prune()


def test_p_is_that_of_all_signs_for_few_seeds() -> None:
    assert signed_rank_p(np.array([0.1, 0.2, 0.3, 0.4, 0.5])) == pytest.approx(1 / 32)
    assert signed_rank_p(np.zeros(5)) >= 0.5
