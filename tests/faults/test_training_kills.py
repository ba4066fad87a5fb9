"""Kills in the middle of a training: it goes on where it stood, and its result is that of an undisturbed one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.checks import check_store, check_table
from tests.faults.place import Place, wait_for

STEPS = 60

PLUGIN = """\
import os, time
import tasks.saved_training
from tasks.training import LaneTraining

tasks.saved_training.EVERY = 0.0
step = LaneTraining.step


def noted(training, batch):
    if training.run.saved is not None:  # not in a warm-up
        with open({place!r}, "a") as file:
            file.write(".")
    time.sleep(float(os.environ["NAP_SECONDS"]))
    return step(training, batch)


LaneTraining.step = noted
"""

SPEC = f"""\
name: models
kind: training
plugins: [slow_training.py]
workload: {{name: token_recall, pairs: 2, length: 16}}
mechanisms: [{{name: triple_memory, width: 16, layers: 1, heads: 2, batch: 4, steps: {STEPS}, evaluations: 3}}]
seeds: 1
retries: {{infrastructure: 100}}
episodes: 32
"""


def submit(place: Place) -> tuple[str, Path]:
    """A sweep of one training, and a file that gets a character for each step that is taken."""
    steps = place.folder / "steps"
    steps.touch()
    (place.folder / "slow_training.py").write_text(PLUGIN.replace("{place!r}", repr(str(steps))))
    (place.folder / "models.yaml").write_text(SPEC)
    return place.submit("models.yaml"), steps


def check(place: Place, sweep: str, quiet: Place) -> None:
    undisturbed, _ = submit(quiet)
    ran = quiet.run("resume", undisturbed, "--executor", "inline", "--json")
    assert ran.code == 0, ran.err
    store = place.store()
    check_store(store, sweep)
    store.close()
    check_table(place.rows(sweep), quiet.rows(undisturbed))
    assert not list((place.folder / "home" / "trainings").iterdir())


@pytest.mark.slow
def test_a_driver_that_trains_itself_is_killed(make_place: Callable[..., Place]) -> None:
    place = make_place(nap=0.05)
    sweep, steps = submit(place)
    driver = place.start("resume", sweep, "--executor", "inline")
    wait_for(lambda: steps.stat().st_size >= STEPS // 2 or driver.poll() is not None, 120, "half of the steps")
    driver.kill()
    driver.wait()
    taken = steps.stat().st_size
    assert STEPS // 2 <= taken < STEPS
    ran = place.run("resume", sweep, "--executor", "inline", "--json")
    assert ran.code == 0, ran.err
    assert steps.stat().st_size <= STEPS + 2, "the training began anew"
    check(place, sweep, make_place("quiet", nap=0.0))


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_a_worker_that_trains_is_killed(make_place: Callable[..., Place]) -> None:
    place = make_place(nap=0.05)
    sweep, steps = submit(place)
    driver = place.start("resume", sweep, "--json")
    wait_for(lambda: steps.stat().st_size >= STEPS // 2 or driver.poll() is not None, 120, "half of the steps")
    for worker in place.victims("worker"):
        worker.kill()
    assert driver.wait(120) == 0, place.errors()
    assert STEPS <= steps.stat().st_size <= STEPS + 2, "the training began anew"
    check(place, sweep, make_place("quiet", nap=0.0))
