"""Sweeps of many users on one scheduler, as a service's conductor runs them: simulated workers, the real store."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from orchestrator.alike import group_of
from orchestrator.executors.base import Event, Shortage
from orchestrator.job import Progress
from orchestrator.logs import ServiceLog
from orchestrator.owner import Owner
from orchestrator.plan import Plan
from orchestrator.runner import submit_plan
from orchestrator.scheduler import Scheduler, StopRequest
from orchestrator.service import sweep_queue
from orchestrator.service.outlooks import Outlooks
from orchestrator.service.sweep_queue import MOST_AT_ONCE, MOST_SWEEPS_EACH, ServiceQueue, next_sweeps
from orchestrator.settings import Settings
from orchestrator.spec import read_spec
from orchestrator.store import schema
from orchestrator.store.clock import process_start
from orchestrator.store.contract import WORKER, trials_of, with_worker
from orchestrator.store.serving import OutlookRow
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store
from tests.orchestrator.test_control import ONE_MECHANISM, SimulatedExecutor
from workers.batch import BatchTask


@pytest.fixture(autouse=True)
def no_idling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedulers end when there is nothing to run."""
    monkeypatch.setattr(sweep_queue, "IDLE_SECONDS", 0.0)


def submit(
    store: Store, user: str | None, trials: int, *, mechanism: str = "full_attention", priority: int = 0, items: int = 4
) -> str:
    text = ONE_MECHANISM.format("sweep", priority, mechanism, trials).replace("items: 4", f"items: {items}")
    return submit_plan(store, Plan(read_spec(text)), use_cache=False, user=user).sweep


class Conducting:
    """A scheduler of a service over simulated workers."""

    def __init__(self, store: Store, settings: Settings, executor: SimulatedExecutor) -> None:
        self.store = store
        self.stop = StopRequest()
        self.outlooks = Outlooks(store)
        self.executor = executor
        self.owner = Owner(store)
        first = store.sweep(store.to_run(sweep_queue.TO_RUN)[0].id)
        self.queue = ServiceQueue(store, settings, first, self.outlooks, ServiceLog(settings), self.stop, self.owner)

    def run(self) -> None:
        """Run until there is nothing to run, or it is told to stop."""
        Scheduler(self.store, self.executor, self.queue, self.outlooks.note, self.stop, serving=True).run()
        self.queue.close()
        self.outlooks.write()
        self.owner.end()

    def told(self, sweep: str) -> OutlookRow:
        """What was told of `sweep` last."""
        return self.store.outlooks([sweep])[sweep]


class Watched(SimulatedExecutor):
    """Notes whose batches are handed out, and calls `at` after so many."""

    def __init__(self, store: Store, at: int = 0, then: Callable[[], object] = lambda: None, slow: float = 0.0) -> None:
        super().__init__(2, slow=slow)
        self.sweeps: list[str] = []
        self._store, self._at, self._then = store, at, then

    def submit(self, worker: str, task: BatchTask) -> None:
        with self._store.engine.connect() as connection:
            attempts = schema.attempts
            self.sweeps.append(
                connection.execute(attempts.select().where(attempts.c.id == task.attempt)).mappings().one()["sweep"]
            )
        super().submit(worker, task)
        if len(self.sweeps) == self._at:
            self._then()


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of ten trials."""
    monkeypatch.setattr("orchestrator.batching.MANY_TRIALS", 10)


def test_users_of_one_priority_have_the_same_share(store: Store, settings: Settings, small_batches: None) -> None:
    """However many sweeps each has; a user's own come by age."""
    ada = [submit(store, "ada", 100, items=items) for items in (3, 4, 5)]
    bob = submit(store, "bob", 100, items=6)
    executor = Watched(store)
    Conducting(store, settings, executor).run()
    first = executor.sweeps[:20]
    assert abs(first.count(bob) - 10) <= 2
    assert [sweep for sweep in executor.sweeps if sweep in ada] == sorted(
        (sweep for sweep in executor.sweeps if sweep in ada), key=ada.index
    )
    assert {store.sweep(sweep).state for sweep in [*ada, bob]} == {"done"}


def test_one_user_has_sweeps_by_age_as_without_a_service(store: Store, settings: Settings, small_batches: None) -> None:
    sweeps = [submit(store, None, 50, items=items) for items in (3, 4)]
    executor = Watched(store)
    Conducting(store, settings, executor).run()
    assert executor.sweeps == [sweeps[0]] * 5 + [sweeps[1]] * 5


def test_a_sweep_ends_while_others_keep_workers_busy(store: Store, settings: Settings, small_batches: None) -> None:
    states: list[str] = []
    urgent = submit(store, "ada", 10, priority=5, items=3)
    long = submit(store, "bob", 1000)
    executor = Watched(store, 60, lambda: states.append(store.sweep(urgent).state), slow=0.05)
    Conducting(store, settings, executor).run()
    assert states == ["done"]
    assert store.sweep(long).state == "done"


def test_who_gives_way_finishes_what_runs_and_leaves_sweeps_running(
    store: Store, settings: Settings, small_batches: None
) -> None:
    sweep = submit(store, "ada", 200)
    conducting = Conducting(store, settings, executor := Watched(store, 6))
    executor._then = conducting.stop.drain.set
    conducting.run()
    row = store.sweep(sweep)
    assert (row.state, row.counts.leased) == ("running", 0)
    assert 40 <= row.counts.done < 200
    with store.engine.connect() as connection:
        assert {one["state"] for one in connection.execute(schema.attempts.select()).mappings()} == {"done"}


def test_who_leaves_hands_back_what_runs_and_spends_no_retries(
    store: Store, settings: Settings, small_batches: None
) -> None:
    sweep = submit(store, "ada", 200)
    conducting = Conducting(store, settings, executor := Watched(store, 6))
    executor._then = conducting.stop.leave.set
    conducting.run()
    row = store.sweep(sweep)
    assert (row.state, row.counts.leased) == ("running", 0)
    assert row.counts.pending > 0
    with store.engine.connect() as connection:
        lost = [one for one in connection.execute(schema.attempts.select()).mappings() if one["state"] == "lost"]
        trials = connection.execute(schema.trials.select()).mappings().all()
    assert lost
    assert {one["reason"] for one in lost} == {"preempted"}
    assert {one["infrastructure_failures"] for one in trials} == {0}
    Conducting(store, settings, Watched(store)).run()
    assert store.sweep(sweep).state == "done"


class NoPlace(SimulatedExecutor):
    """No worker until `ready` is set, for nobody."""

    def __init__(self) -> None:
        super().__init__(0)

    def shortage(self, demands: object) -> Shortage | None:
        return Shortage("no node has cuda", absent=True, devices=frozenset({"cuda"}))

    def wait(self, seconds: float) -> list[Event]:
        time.sleep(0.01)
        return []


def test_a_sweep_without_workers_waits_and_says_why(store: Store, settings: Settings) -> None:
    sweep = submit(store, "ada", 5)
    conducting = Conducting(store, settings, NoPlace())
    thread = threading.Thread(target=conducting.run)
    thread.start()
    until = time.monotonic() + 30
    while conducting.outlooks._news.get(sweep, OutlookRow(sweep, 0.0)).waiting is None and time.monotonic() < until:
        time.sleep(0.05)
    conducting.outlooks.write()
    assert conducting.told(sweep).waiting == "no node has cuda"
    assert store.sweep(sweep).state == "running"
    conducting.stop.leave.set()
    thread.join()
    assert store.sweep(sweep).state == "running"


def test_who_pauses_a_sweep_before_it_begins_is_obeyed(store: Store, settings: Settings) -> None:
    """And only that one is paused."""
    sweep, other = submit(store, "ada", 20), submit(store, "ada", 20, items=6)
    conducting = Conducting(store, settings, Watched(store))
    adopt = conducting.queue.adopt

    def adopt_and_pause() -> Sequence[object]:
        found = adopt()
        store.set_sweep_state(sweep, SweepState.PAUSED)
        return found

    conducting.queue.adopt = adopt_and_pause  # type: ignore[assignment, method-assign]
    conducting.run()
    assert store.sweep(sweep).state == "paused"
    assert store.sweep(sweep).counts.done == 0
    assert store.sweep(other).state == "done"


def test_a_sweep_that_cannot_go_on_keeps_no_other_from_it(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = submit(store, "ada", 20), submit(store, "bob", 20, items=6)
    conducting = Conducting(store, settings, Watched(store))
    make = conducting.queue.job

    def job(row: object) -> object:
        made = make(row)  # type: ignore[arg-type]
        if made.sweep.id == broken:

            def grow() -> bool:
                if made.closed:
                    return False
                raise ArithmeticError("told to fail")

            monkeypatch.setattr(made, "grow", grow)
        return made

    conducting.queue.job = job  # type: ignore[assignment, method-assign]
    conducting.run()
    assert store.sweep(broken).state == "paused"
    assert conducting.told(broken).waiting == "it cannot go on: ArithmeticError: told to fail"
    assert store.sweep(sound).state == "done"


def test_a_sweep_that_cannot_be_read_is_paused_with_the_reason(store: Store, settings: Settings) -> None:
    broken, sound = submit(store, "ada", 5), submit(store, "bob", 5, items=6)
    with store.engine.begin() as connection:
        sweeps = schema.sweeps
        spec = {**store.sweep(broken).spec, "until": {"metric": "recall"}, "kind": "nothing like this"}
        connection.execute(update(sweeps).where(sweeps.c.id == broken).values(spec=spec))
    conducting = Conducting(store, settings, Watched(store))
    conducting.run()
    assert store.sweep(broken).state == "paused"
    assert str(conducting.told(broken).waiting).startswith("it cannot be run: ")
    assert store.sweep(sound).state == "done"


def test_a_few_sweeps_of_each_user_are_under_way_at_a_time(store: Store, settings: Settings) -> None:
    """The oldest ones; what is more urgent comes on top; what others are at is left to them."""
    ada = [submit(store, "ada", 1, items=3 + index) for index in range(MOST_SWEEPS_EACH + 3)]
    bob = submit(store, "bob", 1)
    group = group_of(store.sweep(bob))
    assert [one.id for one in next_sweeps(store, group)] == [*ada[:MOST_SWEEPS_EACH], bob]
    conducting = Conducting(store, settings, Watched(store))
    jobs = conducting.queue.adopt()
    assert next_sweeps(store, group, jobs) == []
    urgent = submit(store, "ada", 1, priority=1)
    assert [one.id for one in next_sweeps(store, group, jobs)] == [urgent]
    for job in jobs[:2]:
        job.wait_for("no node has cuda")
    assert [one.id for one in next_sweeps(store, group, jobs)] == [urgent, ada[MOST_SWEEPS_EACH]]
    assert next_sweeps(store, replace(group, code="another")) == []


def test_left_overs_are_taken_on_unless_somebody_is_at_them(store: Store, other_process: str) -> None:
    with_worker(store)
    left, attended, paused = (submit(store, "ada", 1, items=items) for items in (3, 4, 5))
    for sweep in (left, attended):
        store.set_sweep_state(sweep, SweepState.RUNNING)
    store.set_sweep_state(paused, SweepState.PAUSED)
    store.claim(attended, trials_of(store, attended), WORKER, 60, other_process)
    assert [one.id for one in next_sweeps(store, group_of(store.sweep(left)))] == [left]


@pytest.fixture
def other_process(store: Store) -> str:
    """An orchestrator that lives, in another process than this."""
    identity = store.register_orchestrator()
    parent = os.getppid()
    with store.engine.begin() as connection:
        table = schema.orchestrators
        values = {"pid": parent, "process_started": process_start(parent)}
        connection.execute(update(table).where(table.c.id == identity).values(**values))
    return identity


def test_sweeps_are_taken_on_a_few_at_a_time(store: Store) -> None:
    sweeps = [submit(store, f"user-{index}", 1, items=3 + index % 5) for index in range(MOST_AT_ONCE + 2)]
    found = next_sweeps(store, group_of(store.sweep(sweeps[0])))
    assert [one.id for one in found] == sweeps[:MOST_AT_ONCE]


def test_outlooks_are_kept_until_they_can_be_stored(store: Store, tmp_path: Path) -> None:
    sweep = submit(store, "ada", 4)
    outlooks = Outlooks(store)
    outlooks.note(Progress(sweep, "sweep", 4, 1, 0, left=30.0))
    real = store.set_outlooks

    def fail(rows: object) -> None:
        raise OSError("away")

    store.set_outlooks = fail  # type: ignore[assignment, method-assign]
    with pytest.raises(OSError, match="away"):
        outlooks.write()
    store.set_outlooks = real  # type: ignore[method-assign]
    outlooks._refreshed -= 3600
    outlooks.write()
    told = store.outlooks([sweep])[sweep]
    assert told.seconds_left == pytest.approx(30.0, abs=1.0)
    outlooks._refreshed -= 3600
    outlooks.write()
    assert store.outlooks([sweep])[sweep].updated > told.updated, "it is seen that somebody is at it"
    outlooks.end(sweep)
    outlooks.write()
    assert store.outlooks([sweep])[sweep].seconds_left is None
