"""Who runs sweeps, and when: the supervisor with conductors that only say what they are told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import update

from orchestrator.alike import Group, group_of
from orchestrator.exit_codes import ALL_DONE, SYSTEM_FAILED
from orchestrator.logs import LogReader, log_file
from orchestrator.service import duties
from orchestrator.service.duties import DUTY, ITS_TURN, STUCK_SECONDS, Supervisor
from orchestrator.service.turns import TURN_SECONDS
from orchestrator.settings import Settings
from orchestrator.store import schema
from orchestrator.store.contract import WORKER, asked, new_sweep, result, trials_of, with_worker
from orchestrator.store.serving import OutlookRow
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store

GRACE = 30.0


class Said:
    """A conductor that runs nothing."""

    made: list[Said]

    def __init__(self, settings: Settings, group: Group) -> None:
        self.group = group
        self.pid = 1
        self.began, self.since = time.time(), 0.0
        self.exit_code: int | None = None
        self.gives_way = self.left = False
        self.made.append(self)

    def give_way(self) -> None:
        self.gives_way = True

    def leave(self) -> None:
        self.left = True

    def end(self, seconds: float) -> None:
        self.left, self.exit_code = True, ALL_DONE


class Teller:
    """A tracker that tells nobody."""

    made: list[Teller]

    def __init__(self, settings: Settings, grace: float) -> None:
        self.pid, self.is_alive, self.left = 2, True, False
        self.made.append(self)

    def leave(self) -> None:
        self.left = True

    def end(self, seconds: float) -> None:
        self.left = True


@pytest.fixture
def conductors(monkeypatch: pytest.MonkeyPatch) -> list[Said]:
    """Conductors that were started."""
    Said.made, Teller.made = [], []
    monkeypatch.setattr(duties, "ConductorProcess", Said)
    monkeypatch.setattr(duties, "TrackerProcess", Teller)
    return Said.made


@pytest.fixture
def supervisor(settings: Settings, store: Store, conductors: list[Said]) -> Supervisor:
    return Supervisor(settings, store)


def submit(store: Store, kind: str = "frontier", priority: int = 0) -> str:
    trials = ((replace(cell, digest=f"{kind}-{cell.digest}"), seed, f"{kind}-{key}") for cell, seed, key in asked(1, 2))
    return store.submit(replace(new_sweep(use_cache=False), kind=kind, priority=priority), trials).sweep


def waiting(store: Store, sweep: str) -> str | None:
    return store.outlooks([sweep])[sweep].waiting


def test_a_conductor_runs_while_there_is_something_to_run(
    supervisor: Supervisor, store: Store, conductors: list[Said]
) -> None:
    supervisor.tick(0.0)
    assert conductors == []
    sweep = submit(store)
    supervisor.tick(1.0)
    supervisor.tick(2.0)
    [conductor] = conductors
    assert conductor.group == group_of(store.sweep(sweep))
    store.set_sweep_state(sweep, SweepState.PAUSED)
    conductor.exit_code = ALL_DONE
    supervisor.tick(3.0)
    assert len(conductors) == 1
    store.set_sweep_state(sweep, SweepState.QUEUED)
    supervisor.tick(4.0)
    assert len(conductors) == 2


def test_a_tracker_runs_while_there_is_something_to_tell(
    supervisor: Supervisor, store: Store, conductors: list[Said]
) -> None:
    """Of a cancelled sweep too that nobody ran; later there is none."""
    supervisor.tick(0.0)
    assert Teller.made == []
    store.set_sweep_state(submit(store), SweepState.CANCELLED)
    supervisor.tick(1.0)
    [tracker] = Teller.made
    assert conductors == []
    store.delivered([notice.id for notice in store.notices(None, 100)])
    supervisor.tick(2.0)
    assert not tracker.left
    supervisor.tick(100.0)
    assert tracker.left


def test_one_that_dies_is_started_again_after_growing_pauses(
    supervisor: Supervisor, store: Store, conductors: list[Said]
) -> None:
    sweep = submit(store)
    started = []
    for second in range(40):
        before = len(conductors)
        supervisor.tick(float(second))
        if len(conductors) > before:
            started.append(second)
            conductors[-1].exit_code = -9
    assert started == [0, 2, 5, 10, 19, 36]
    assert waiting(store, sweep) == "the process that runs it ended (signal 9); it is tried again"


def test_what_a_conductor_has_told_itself_is_left(supervisor: Supervisor, store: Store, conductors: list[Said]) -> None:
    sweep = submit(store)
    supervisor.tick(0.0)
    store.set_outlook(OutlookRow(sweep, time.time(), waiting="no cluster answers"))
    conductors[0].exit_code = SYSTEM_FAILED
    supervisor.tick(1.0)
    assert waiting(store, sweep) == "no cluster answers"


def test_groups_take_turns_from_when_they_are_at_work(
    supervisor: Supervisor, store: Store, conductors: list[Said]
) -> None:
    """However long they need to get ready."""
    with_worker(store)
    plain, timed = submit(store), submit(store, "cost_scaling")
    supervisor.tick(0.0)
    [first] = conductors
    assert first.group == group_of(store.sweep(plain))
    assert waiting(store, timed) == ITS_TURN
    supervisor.tick(3 * TURN_SECONDS)
    assert not first.gives_way
    store.claim(plain, trials_of(store, plain), WORKER, 600)
    supervisor.tick(4 * TURN_SECONDS)
    supervisor.tick(5 * TURN_SECONDS - 1)
    assert not first.gives_way
    supervisor.tick(5 * TURN_SECONDS)
    assert first.gives_way
    first.exit_code = ALL_DONE
    supervisor.tick(5 * TURN_SECONDS + 1)
    assert conductors[1].group == group_of(store.sweep(timed))
    assert waiting(store, plain) == ITS_TURN


def test_who_finds_no_worker_holds_up_nobody_however_urgent(
    supervisor: Supervisor, store: Store, conductors: list[Said]
) -> None:
    urgent = submit(store, "cost_scaling", priority=9)
    supervisor.tick(0.0)
    [first] = conductors
    store.set_outlook(OutlookRow(urgent, time.time() + 1.0, waiting="no node has cuda"))
    supervisor.tick(100.0)
    assert not first.gives_way, "nobody else waits"
    plain = submit(store)
    supervisor.tick(101.0)
    assert not first.gives_way
    supervisor.tick(102.0 + STUCK_SECONDS)
    assert first.gives_way
    first.exit_code = ALL_DONE
    supervisor.tick(103.0 + STUCK_SECONDS)
    assert conductors[1].group == group_of(store.sweep(plain))
    assert waiting(store, urgent) == "no node has cuda", "the reason stands"


def test_missing_reports_are_drawn_once(supervisor: Supervisor, store: Store, conductors: list[Said]) -> None:
    """A sweep that was cancelled when nobody ran it has results, and no report."""
    with_worker(store)
    sweep = submit(store)
    lease = store.claim(sweep, trials_of(store, sweep)[:1], WORKER, 60)
    assert lease is not None
    store.accept(lease.attempt, WORKER, [result(trial) for trial in lease.trials])
    store.set_sweep_state(sweep, SweepState.CANCELLED)
    supervisor.tick(0.0)
    assert len(conductors) == 1
    conductors[0].exit_code = ALL_DONE
    for second in range(10, 60, 10):
        supervisor.tick(float(second))
    assert len(conductors) == 1


def test_only_who_has_the_duty_runs_sweeps(supervisor: Supervisor, store: Store, conductors: list[Said]) -> None:
    """Who loses it has its conductor leave; who hears nothing of the database for long does, too."""
    submit(store)
    other = store.register_orchestrator()
    assert store.take_duty(DUTY, other, 600)
    supervisor.tick(0.0)
    assert conductors == []
    store.leave_duty(DUTY, other)
    supervisor.tick(10.0)
    [conductor] = conductors
    leases = schema.service_leases
    with store.engine.begin() as connection:
        connection.execute(update(leases).where(leases.c.duty == DUTY).values(holder=other))
    supervisor.tick(20.0)
    assert conductor.left
    assert all(tracker.left for tracker in Teller.made)


def test_the_duty_is_left_at_the_end(
    supervisor: Supervisor, store: Store, conductors: list[Said], settings: Settings
) -> None:
    submit(store)
    supervisor.start()
    until = time.monotonic() + GRACE
    while not conductors and time.monotonic() < until:
        time.sleep(0.05)
    supervisor.end()
    assert [one.left for one in (*conductors, *Teller.made)] == [True, True]
    assert store.take_duty(DUTY, store.register_orchestrator(), 60)
    told = [entry["event"] for entry in LogReader(log_file(settings, "service")).entries()]
    assert told == ["on duty: runs sweeps", "tracker started", "conductor started", "service ends"]


def test_an_error_disturbs_the_thread_only_for_a_moment(
    supervisor: Supervisor, store: Store, conductors: list[Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(store)
    failed: list[float] = []
    tick: Callable[[float], None] = supervisor.tick

    def fail_first(now: float) -> None:
        failed.append(now)
        if len(failed) == 1:
            raise KeyError("unforeseen")
        tick(now)

    monkeypatch.setattr(supervisor, "tick", fail_first)
    supervisor.start()
    until = time.monotonic() + GRACE
    while not conductors and time.monotonic() < until:
        time.sleep(0.05)
    supervisor.end()
    assert len(conductors) == 1
