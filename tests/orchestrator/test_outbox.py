"""What the tracker is told of a sweep, and when: its best trials once they are known, its progress now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from orchestrator import outbox as outboxes
from orchestrator.outbox import StoreOutbox, Told
from orchestrator.store import schema
from orchestrator.store.contract import WORKER, failure, result, trials_of, with_worker
from orchestrator.store.states import SweepState, TrialState
from orchestrator.store.store import Store
from orchestrator.tracker.records import ParentRun, TrialRun
from tests.orchestrator.specs import write_small

Run = ParentRun | TrialRun


@pytest.fixture
def told_of(store: Store) -> Callable[..., list[list[Run]]]:
    """Drains the outbox of a sweep as one process would that has told of something before; the runs, batch by batch."""

    def drain(sweep: str, told: Told) -> list[list[Run]]:
        outbox = StoreOutbox(store, sweep, "holder", 60.0, told)

        def batches() -> Iterator[list[Run]]:
            while deliveries := outbox.next(500):
                yield [delivery.run for delivery in deliveries]
                outbox.done([delivery.id for delivery in deliveries])

        return list(batches())

    return drain


@pytest.fixture
def unheard(slotsweep_here: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A sweep that has ended while MLflow was away."""
    monkeypatch.setenv("SLOTSWEEP_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("SLOTSWEEP_TRACKING_GRACE", "0")
    ran = slotsweep_here("run", str(write_small(tmp_path)), "--executor", "inline", "--json")
    return str(ran.json["sweep"])


def best_of(batches: list[list[Run]]) -> list[str]:
    """Names of the trials that are told to be best, as often as they are told of."""
    return [run.name for batch in batches for run in batch if run.tags.get("slotsweep.best") == "true"]


def test_the_best_are_told_of_once_by_a_process_and_again_by_the_next(
    unheard: str, store: Store, told_of: Callable[..., list[list[Run]]]
) -> None:
    told = Told()
    [batch] = told_of(unheard, told)
    assert [type(run) for run in batch] == [ParentRun] + [TrialRun] * 24
    best = best_of([batch])
    assert 0 < len(best) < 24
    store.remind(unheard)
    assert [len(again) for again in told_of(unheard, told)] == [1]
    store.remind(unheard)
    again = told_of(unheard, Told())
    assert [len(batch) for batch in again] == [1, len(best)]
    assert sorted(best_of(again)) == sorted(best)


def test_a_trial_that_is_no_longer_best_is_told_of_too(
    unheard: str, store: Store, told_of: Callable[..., list[list[Run]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    told_of(unheard, Told())
    store.remind(unheard)
    monkeypatch.setattr(outboxes, "leading_trials", lambda _: {3, 4})
    before = told_of(unheard, Told())
    store.remind(unheard)
    monkeypatch.setattr(outboxes, "leading_trials", lambda _: {4, 5})
    after = told_of(unheard, Told())
    assert [len(best_of(batches)) for batches in (before, after)] == [2, 2]
    assert len(after[-1]) == 3


def test_a_running_sweep_is_told_of_now_and_then(
    slotsweep_here: Callable[..., Any], store: Store, told_of: Callable[..., list[list[Run]]], tmp_path: Path
) -> None:
    sweep = slotsweep_here("submit", str(write_small(tmp_path))).out.strip()
    store.set_sweep_state(sweep, SweepState.RUNNING)
    with_worker(store)
    told = Told()

    def finish_one() -> list[list[Run]]:
        [trial, *_] = trials_of(store, sweep)
        lease = store.claim(sweep, [trial], WORKER, 60)
        assert lease is not None
        store.accept(lease.attempt, WORKER, [result(trial)])
        return told_of(sweep, told)

    assert [type(run) for batch in finish_one() for run in batch] == [ParentRun, TrialRun]
    assert [type(run) for batch in finish_one() for run in batch] == [TrialRun]
    told.progress[sweep] = time.monotonic() - outboxes.PROGRESS_SECONDS
    [[trial], [parent]] = finish_one()
    assert isinstance(trial, TrialRun)
    assert isinstance(parent, ParentRun)
    assert parent.note.startswith("**running**: 3 of 24 trials done.")
    assert [type(run) for batch in finish_one() for run in batch] == [TrialRun]


def test_the_run_that_a_retry_replaces_is_told_to_be_no_longer_the_sweeps(
    slotsweep_here: Callable[..., Any], store: Store, told_of: Callable[..., list[list[Run]]], tmp_path: Path
) -> None:
    """It says where, when and why it failed, and who had submitted it; MLflow's views leave it out."""
    sweep = slotsweep_here("submit", str(write_small(tmp_path))).out.strip()
    with store.engine.begin() as connection:
        connection.execute(update(schema.sweeps).values(user="ada"))
    with_worker(store)
    store.set_sweep_state(sweep, SweepState.RUNNING)
    trial, *_ = trials_of(store, sweep)
    lease = store.claim(sweep, [trial], WORKER, 60)
    assert lease is not None
    store.accept(lease.attempt, WORKER, [failure(trial)])
    [attempt] = store.attempts_of(trial)
    assert attempt.finished is not None
    for replaced in ("false", "true"):
        [run] = [run for batch in told_of(sweep, Told()) for run in batch if isinstance(run, TrialRun)]
        assert run.tags["slotsweep.replaced"] == replaced
        assert (run.status, run.tags["slotsweep.message"], run.tags["mlflow.user"]) == ("FAILED", "boom", "ada")
        assert (run.tags["slotsweep.worker"], run.tags["hw.cpu_model"]) == (WORKER, "x")
        assert (run.start_ms, run.end_ms) == (round(1000 * attempt.started), round(1000 * attempt.finished))
        store.retry(sweep, [TrialState.FAILED])
