"""Kills in the middle of a study: exactly as many proposals as were asked for, the very ones of an undisturbed run."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from orchestrator.store.records import ProposalRow
from tests.faults.checks import check_store, check_table, check_tracking
from tests.faults.place import DROWSY_PLUGIN, PLUGIN_FILE, Place

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

TRIALS = 40

TUNE = f"""\
name: storm
kind: tuning
plugins: [{PLUGIN_FILE}]
workload: {{name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16, noise: 0.4}}
mechanisms: [{{name: drowsy}}]
search: {{drowsy.temperature: {{low: 0.01, high: 1.0, log: true}}}}
objectives: {{recall: maximize}}
trials: {TRIALS}
batch: 4
seeds: 6
held_out: 3
retries: {{infrastructure: 100}}
episodes: 3
"""

INSIDE_A_DECISION = """
import os, signal
from orchestrator.store import growing
judge = growing._judge
calls = []
def deadly(*arguments):
    judge(*arguments)
    calls.append(1)
    if len(calls) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
growing._judge = deadly
"""

AFTER_A_DECISION = """
import os, signal
from orchestrator.store.store import Store
grow = Store.grow
calls = []
def deadly(*arguments, **options):
    grown = grow(*arguments, **options)
    calls.append(1)
    if len(calls) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return grown
Store.grow = deadly
"""

ANSWER_LOST = """
from sqlalchemy.exc import OperationalError
from orchestrator.store.store import Store
grow = Store.grow
calls = []
def forgetful(*arguments, **options):
    grown = grow(*arguments, **options)
    calls.append(1)
    if len(calls) == 3:
        raise OperationalError("COMMIT", {}, Exception("server closed the connection unexpectedly"))
    return grown
Store.grow = forgetful
"""


def proposals(place: Place, sweep: str) -> list[ProposalRow]:
    store = place.store()
    try:
        return store.proposals(sweep)
    finally:
        store.close()


def submit(place: Place) -> str:
    (place.folder / PLUGIN_FILE).write_text(DROWSY_PLUGIN)
    (place.folder / "study.yaml").write_text(TUNE)
    return place.submit("study.yaml")


def check(place: Place, sweep: str, quiet: Place, undisturbed: str) -> None:
    assert len(proposals(place, sweep)) == TRIALS
    assert proposals(place, sweep) == proposals(quiet, undisturbed)
    store = place.store()
    check_store(store, sweep)
    store.close()
    check_table(place.rows(sweep), quiet.rows(undisturbed))


def run_undisturbed(quiet: Place) -> str:
    sweep = submit(quiet)
    ran = quiet.run("resume", sweep, "--executor", "inline", "--json")
    assert ran.code == 0, ran.err
    return sweep


def test_kills_and_lost_answers_around_a_decision_change_no_proposal(make_place: Callable[..., Place]) -> None:
    """The process dies inside a decision, then right after one, and then never hears that one was taken."""
    place, quiet = make_place(nap=0.0), make_place("quiet", nap=0.0)
    sweep = submit(place)
    for fault in (INSIDE_A_DECISION, AFTER_A_DECISION):
        assert place.run("resume", sweep, "--executor", "inline", before=fault).code == -9
        assert 0 < len(proposals(place, sweep)) < TRIALS
    ran = place.run("resume", sweep, "--executor", "inline", "--json", before=ANSWER_LOST)
    assert ran.code == 0, ran.err
    check(place, sweep, quiet, run_undisturbed(quiet))
    check_tracking(place, sweep, place.rows(sweep))


def test_exactly_as_many_proposals_as_asked_for_with_workers_and_kills(
    make_place: Callable[..., Place], full: bool, seed: int, tell: Callable[[str], None]
) -> None:
    """Scenario 20: the driver is killed at random moments (twice, in one process, in the short form) and resumed."""
    place, quiet = make_place(nap=0.05), make_place("quiet", nap=0.0)
    sweep = submit(place)
    kills, executor = (8, "ray") if full else (2, "inline")
    dice = random.Random(seed)
    for kill in range(kills):
        known = len(proposals(place, sweep))
        driver = place.start("resume", sweep, "--executor", executor)
        until = time.monotonic() + 180
        while len(proposals(place, sweep)) <= known and driver.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(dice.uniform(0.0, 1.0))
        driver.kill()
        driver.wait()
        tell(f"kill {kill}: {len(proposals(place, sweep))} proposals")
    ran = place.run("resume", sweep, "--json")
    assert ran.code == 0, ran.err
    check(place, sweep, quiet, run_undisturbed(quiet))
