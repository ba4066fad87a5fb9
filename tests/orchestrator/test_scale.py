"""A thousand simulated workers on the real scheduler and store: what a trial costs, and that each is counted once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import func, select

from orchestrator.store import schema
from orchestrator.store.engine import reading
from orchestrator.store.store import Store
from tests.benchmarks.scale import Case, Measured, Shape, measure
from tests.benchmarks.simulated_fleet import Behaviour

TRIALS = 10_000
CPU_MILLISECONDS = {"fused": 0.2, "unfused": 1.0}
"""Of the orchestrator for a trial: the aims, 5,000 trials a second in batches of 20 and 1,000 batches of one trial."""

MOST_GROWTH = 1.6
"""Costs of trials late in a sweep by those of early ones."""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'scale.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.mark.alone
@pytest.mark.parametrize("shape", ["fused", "unfused"])
def test_a_thousand_workers_cost_little_and_the_same_from_first_to_last(
    shape: Shape, url: str, tmp_path: Path, pace: float, record_property: Callable[[str, object], None]
) -> None:
    found = measure(Case("sqlite", shape, TRIALS, behaviour=Behaviour(0.5)), url, tmp_path)
    milliseconds = 1000 * found.cpu / TRIALS
    record_property("cpu_milliseconds_a_trial", milliseconds)
    record_property("growth", found.growth)
    assert milliseconds < CPU_MILLISECONDS[shape] * pace
    assert shape == "fused" or found.growth < MOST_GROWTH, "fused, the whole is over in two seconds"
    renewing = found.calls["claim_all"] + found.calls["accept_all"]
    assert renewing < TRIALS / 4, "batches that arrive together share a transaction"


@pytest.mark.alone
def test_postgres_leases_a_fresh_sweep_as_quickly_trial_by_trial_as_a_small_one(
    postgres_url: str, tmp_path: Path
) -> None:
    """It was told of so many new rows a moment ago that it may know nothing of them, and compare all with all."""
    few, many = (
        measure(Case("postgresql", "fused", trials), postgres_url, tmp_path / str(trials)) for trials in (4_000, 60_000)
    )
    each = [(one.parts["claim_all"] + one.parts["accept_all"]) / one.trials for one in (few, many)]
    assert each[1] < 3 * each[0]


def test_trials_that_fail_and_workers_that_are_lost_are_counted_once(url: str, tmp_path: Path) -> None:
    """What becomes of each trial follows from the behaviour alone, whatever the order in which workers are lost."""
    behaviour = Behaviour(0.5, failing=0.05, lost=0.02, seed=3)
    found = measure(Case("sqlite", "fused", 4_000, workers=50, behaviour=behaviour), url, tmp_path)
    assert found.lost > 0
    _check(Store.open(url), behaviour, found)


def _check(store: Store, behaviour: Behaviour, found: Measured) -> None:
    trials, results, outbox, attempts = schema.trials.c, schema.results.c, schema.outbox.c, schema.attempts.c
    with reading(store.engine) as connection:
        failed = set(connection.execute(select(trials.id).where(trials.state == "failed")).scalars())
        done = set(connection.execute(select(trials.id).where(trials.state == "done")).scalars())
        stored = set(connection.execute(select(results.trial)).scalars())
        told = list(connection.execute(select(outbox.trial).where(outbox.trial.is_not(None))).scalars())
        lost = connection.execute(select(func.count()).where(attempts.reason == "worker_lost")).scalar_one()
    store.close()
    assert failed == {trial for trial in failed | done if behaviour.fails(trial)}
    assert len(failed | done) == found.trials
    assert stored == done
    assert sorted(told) == sorted(failed | done)
    assert lost == found.lost
