"""A mirror that cannot be written: the command says so, and it is caught up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import optuna
import pytest

from orchestrator.settings import Settings
from orchestrator.tuner.mirror import study_name, trials_told
from tests.orchestrator.conftest import Ran
from tests.orchestrator.specs import SMALL

Command = Callable[..., Ran]

TUNE = """\
name: tune
kind: tuning
workload: {name: associative_recall, items: 6, repeats: 2, classes: 4, dim: 8, noise: 0.3}
mechanisms: [{name: dp_cache}]
search: {dp_cache.tau: {low: 0.05, high: 0.95}}
objectives: {recall: maximize}
sampler: random
trials: 4
seeds: 2
held_out: 1
episodes: 1
"""


@pytest.fixture
def unwritten(slotsweep: Command, settings: Settings, tmp_path: Path) -> str:
    """A sweep that tuned while Optuna's store could not be written; its id."""
    (tmp_path / "tune.yaml").write_text(TUNE, encoding="utf-8")
    broken = f"sqlite:///{tmp_path}/blocked.db"
    (tmp_path / "blocked.db").mkdir()
    ran = slotsweep("run", "tune.yaml", "--executor", "inline", "--json", SLOTSWEEP_OPTUNA_URL=broken)
    assert ran.code == 0, ran.err
    sweep = str(ran.json["sweep"])
    said = " ".join(ran.err.split())
    assert f"the studies of sweep {sweep} are not in Optuna's store" in said
    assert "blocked.db" in said
    return sweep


def trials(settings: Settings, sweep: str) -> int:
    study = optuna.load_study(study_name=study_name(sweep, "tune", "dp_cache"), storage=settings.optuna_url)
    return len(study.trials)


def test_a_report_writes_the_studies_that_a_run_could_not(
    unwritten: str, slotsweep: Command, settings: Settings
) -> None:
    ran = slotsweep("report", unwritten)
    assert ran.code == 0, ran.err
    assert "Optuna" not in ran.err
    assert trials(settings, unwritten) == 4


def test_the_next_sweep_that_runs_writes_the_studies_of_earlier_ones(
    unwritten: str, slotsweep: Command, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    ran = slotsweep("run", "small.yaml", "--executor", "inline", "--json")
    assert ran.code == 0, ran.err
    assert trials(settings, unwritten) == 4
    name = study_name(unwritten, "tune", "dp_cache")
    assert trials_told(settings.optuna_url, [name, "another"]) == {name: (4, 0)}
