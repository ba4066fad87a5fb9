"""Kills at the moments that matter most: in mid-trial, inside a commit, right after it, and again and again."""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections.abc import Callable

import pytest
from sqlalchemy import select

from orchestrator.store import schema
from orchestrator.store.engine import reading
from orchestrator.store.store import Store
from tests.faults.checks import check_store, check_table, check_tracking
from tests.faults.place import Place, Row, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

Undisturbed = Callable[[Place, str], list[Row]]

BATCHES = 5
"""Of twenty trials each."""

INSIDE_THE_COMMIT = """
import os, signal
from orchestrator.store import executing
count_stale = executing._count_stale
def deadly(*arguments):
    count_stale(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
executing._count_stale = deadly
"""
"""Results are written by then, and not committed."""

AFTER_THE_COMMIT = """
import os, signal
from orchestrator.store.store import Store
accept_all = Store.accept_all
def deadly(*arguments):
    accept_all(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
Store.accept_all = deadly
"""

ANSWER_LOST = """
from sqlalchemy.exc import OperationalError
from orchestrator.store.store import Store
accept_all = Store.accept_all
lost = []
def forgetful(*arguments):
    accepted = accept_all(*arguments)
    if not lost:
        lost.append(accepted)
        raise OperationalError("COMMIT", {}, Exception("server closed the connection unexpectedly"))
    return accepted
Store.accept_all = forgetful
"""

WORKER_AFTER_THE_COMMIT = """
import os, signal
from sqlalchemy import select
from orchestrator.store import schema
from orchestrator.store.store import Store
accept_all = Store.accept_all
killed = []
def deadly(store, reports):
    accepted = accept_all(store, reports)
    if not killed:
        killed.append(reports[0].worker)
        with store.engine.begin() as connection:
            own = select(schema.workers.c.pid).where(schema.workers.c.id == killed[0])
            pid = connection.execute(own).scalar_one()
        os.kill(pid, signal.SIGKILL)
    return accepted
Store.accept_all = deadly
"""


def committed(store: Store) -> dict[int, tuple[int, float]]:
    """Trial -> the attempt whose result was taken, and when it was computed."""
    columns = schema.results.c
    with reading(store.engine) as connection:
        rows = connection.execute(select(columns.trial, columns.attempt, columns.finished))
        return {trial: (attempt, finished) for trial, attempt, finished in rows}


def histories(store: Store, sweep: str) -> list[list[tuple[str, str | None]]]:
    """State and reason of every attempt at each of the sweep's trials."""
    return [
        [(attempt.state, attempt.reason) for attempt in store.attempts_of(row["id"])] for row in store.trial_rows(sweep)
    ]


def test_kills_and_lost_answers_around_a_commit_leave_each_trial_once(
    make_place: Callable[..., Place], undisturbed: Undisturbed
) -> None:
    """Scenario 11. What was committed is not computed again; what was not, is, and no retry is spent on it.

    The first process dies inside its first commit, the second right after it, and the third never hears that its own
    was taken: it repeats it, which is counted and changes nothing.
    """
    place = make_place(nap=0.0)
    sweep = place.submit(spec := place.write_spec(BATCHES))
    store = place.store()
    assert place.run("resume", sweep, "--executor", "inline", before=INSIDE_THE_COMMIT).code == -9
    assert committed(store) == {}
    assert place.run("resume", sweep, "--executor", "inline", before=AFTER_THE_COMMIT).code == -9
    survived = committed(store)
    assert len(survived) == 20
    ran = place.run("resume", sweep, "--executor", "inline", "--json", before=ANSWER_LOST)
    assert (ran.code, ran.json["done"]) == (0, 20 * BATCHES), ran.err
    assert survived.items() <= committed(store).items()
    once, again = [("done", None)], [("lost", "preempted"), ("done", None)]
    assert histories(store, sweep) == [again] * 20 + [once] * 20 * (BATCHES - 1)
    with reading(store.engine) as connection:
        stale = connection.execute(select(schema.attempts.c.stale).where(schema.attempts.c.stale > 0)).scalars()
        assert list(stale) == [20]
    check_store(store, sweep)
    check_table(place.rows(sweep), undisturbed(place, spec))
    check_tracking(place, sweep, place.rows(sweep))


def test_a_worker_killed_right_after_a_commit_loses_only_what_it_computes(
    place: Place, undisturbed: Undisturbed
) -> None:
    """Scenarios 10 and 11, on Ray: the committed batch stays; the one in progress is computed elsewhere."""
    sweep = place.submit(spec := place.write_spec(BATCHES))
    ran = place.run("resume", sweep, "--json", before=WORKER_AFTER_THE_COMMIT)
    assert (ran.code, ran.json["done"]) == (0, 20 * BATCHES), ran.err
    store = place.store()
    lost = [history[0] for history in histories(store, sweep) if len(history) == 2]
    assert lost.count(("lost", "worker_lost")) == 20
    assert set(lost) <= {("lost", "worker_lost"), ("lost", "preempted")}, "what it merely held costs no retry"
    first = min(attempt for attempt, _ in committed(store).values())
    with reading(store.engine) as connection:
        tries = connection.execute(
            select(schema.trials.c.attempts)
            .join(schema.results, schema.results.c.trial == schema.trials.c.id)
            .where(schema.results.c.attempt == first)
        ).scalars()
        assert set(tries) == {1}
    check_store(store, sweep)
    check_table(place.rows(sweep), undisturbed(place, spec))
    assert place.left() == []


def test_runs_that_a_killed_tracker_left_are_written_before_its_driver_ends(place: Place) -> None:
    """Another tracker takes over, though the first one's lease has not run out."""
    sweep = place.submit(place.write_spec(BATCHES))
    driver = place.start("resume", sweep, "--executor", "inline")
    store = place.store()
    wait_for(lambda: bool(committed(store)), 180, "a commit")
    [tracker] = place.victims("tracker")
    tracker.kill()
    assert driver.wait(300) == 0, place.errors()
    check_store(store, sweep)
    check_tracking(place, sweep, place.rows(sweep))


def test_a_driver_killed_again_and_again_computes_nothing_twice(
    place: Place, undisturbed: Undisturbed, full: bool, seed: int, tell: Callable[[str], None]
) -> None:
    """Scenario 12: ten times in a row (four, in one process, in the short form), then resume.

    Every second time the driver is left to commit something first.
    """
    kills, executor, start = (10, "ray", 12.0) if full else (4, "inline", 3.0)
    dice = random.Random(seed)
    sweep = place.submit(spec := place.write_spec(30 if full else BATCHES))
    store = place.store()
    known = committed(store)
    for kill in range(kills):
        driver = place.start("resume", sweep, "--executor", executor)
        if kill % 2:
            wait_for(lambda: len(committed(store)) > len(known), 180, "a commit")  # noqa: B023 (called at once)
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.wait(dice.uniform(0.0, 0.5 if kill % 2 else start))
        assert driver.poll() is None, place.errors()
        driver.kill()
        driver.wait()
        assert known.items() <= committed(store).items()
        known = committed(store)
    ran = place.run("resume", sweep, "--executor", executor, "--json")
    assert (ran.code, ran.json["failed"]) == (0, 0), ran.err
    assert known.items() <= committed(store).items()
    check_store(store, sweep)
    check_table(place.rows(sweep), undisturbed(place, spec))
    check_tracking(place, sweep, place.rows(sweep))
    assert place.left() == []
    tell(f"{kills} drivers killed, {len(known)} of {ran.json['trials']} trials done before the last resume")
