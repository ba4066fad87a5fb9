"""Studies in Optuna's own store: equal to what Optuna writes, once, whatever is killed."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
import pytest

from orchestrator.store.store import Store
from orchestrator.tracker.mlflow_store import ensure_store
from orchestrator.tracker.tracker import TrackerRefusedError
from orchestrator.tuner import mirror as mirroring
from orchestrator.tuner.live import Told
from orchestrator.tuner.mirror import MirroredStudy, MirroredTrial, mirror, study_name
from orchestrator.tuner.samplers import distribution_of
from tasks.search import Bound, Goal, Parameter

PARAMETERS = (
    Parameter("mechanism.keep", "categorical", choices=("first", "last")),
    Parameter("mechanism.tau", "float", 0.05, 0.95),
    Parameter("mechanism.eta", "float", 0.0, 1.0, step=0.25, when=(("mechanism.keep", ("last",)),)),
    Parameter("mechanism.cap", "int", 1, 1000, log=True),
)
GOAL = Goal({"recall": "maximize", "bytes": "minimize"}, {"slots": Bound(at_most=18)})
START = 1_760_000_000_000


def trial(number: int) -> MirroredTrial:
    params: dict[str, Any] = {
        "mechanism.keep": "last" if number % 2 else "first",
        "mechanism.tau": 0.05 + number % 900 / 1000,
    }
    if number % 2:
        params["mechanism.eta"] = 0.25
    params["mechanism.cap"] = 1 + number % 1000
    told = Told() if number % 5 == 3 else Told([number / 7, -1.5 * number], {"slots at_most": number - 4.0})
    notes = {"seeds": [0, 1, 2], "state": "complete", "keys": {"0": "ab"}}
    return MirroredTrial(number, params, told, START + number, START + 500 + number, {0: 0.5, 3: number / 3}, notes)


def study(count: int, **changes: Any) -> MirroredStudy:
    return replace(
        MirroredStudy("dp_cache", GOAL, PARAMETERS, [trial(i) for i in range(count)], {"sampler": "tpe"}), **changes
    )


def read(url: str, title: str = "dp_cache") -> optuna.Study:
    return optuna.load_study(study_name=study_name("s1", "tune", title), storage=url)


def as_optuna_writes(url: str, mirrored: MirroredStudy) -> optuna.Study:
    made = optuna.create_study(storage=url, directions=mirrored.goal.directions, study_name="by Optuna")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        made.set_metric_names(list(mirrored.goal.objectives))
    for one in mirrored.trials:
        assert one.told is not None
        written = optuna.create_trial(
            state=optuna.trial.TrialState.COMPLETE if one.told.values else optuna.trial.TrialState.FAIL,
            params=one.params,
            distributions={each.name: distribution_of(each) for each in PARAMETERS if each.name in one.params},
            values=one.told.values,
            user_attrs=dict(one.notes),
            intermediate_values=dict(one.by_step),
            constraints=dict(one.told.violations),
        )
        written.datetime_start = datetime.fromtimestamp(one.started_ms / 1000)
        written.datetime_complete = datetime.fromtimestamp((one.ended_ms or 0) / 1000)
        made.add_trial(written)
    return made


def test_what_is_read_equals_what_optuna_would_have_written(tmp_path: Path) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = f"sqlite:///{tmp_path / 'a.db'}"
    assert mirror(url, "s1", "tune", [study(12)]) == 12
    ours, theirs = read(url), as_optuna_writes(f"sqlite:///{tmp_path / 'b.db'}", study(12))
    assert ours.trials == theirs.trials
    assert ours.directions == theirs.directions
    assert ours.metric_names == ["recall", "bytes"]
    assert ours.user_attrs == {"sampler": "tpe"}
    assert ours.trials[4].constraints == {"slots at_most": 0.0}
    assert [one.number for one in ours.best_trials] == [one.number for one in theirs.best_trials]


def test_what_is_new_is_appended_and_what_is_decided_since_replaced(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'optuna.db'}"
    still_open = replace(trial(4), told=None, ended_ms=None)
    assert mirror(url, "s1", "tune", [study(4, trials=[*study(4).trials, still_open])]) == 5
    assert [one.state.name for one in read(url).trials].count("RUNNING") == 1
    assert mirror(url, "s1", "tune", [study(9)]) == 5
    assert mirror(url, "s1", "tune", [study(9)]) == 0
    whole = f"sqlite:///{tmp_path / 'whole.db'}"
    mirror(whole, "s1", "tune", [study(9)])
    assert read(url).trials == read(whole).trials
    assert len(optuna.get_all_study_names(url)) == 1


def test_one_objective_stopped_by_level_infinite_and_not_a_number(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'optuna.db'}"
    one = Goal({"recall": "maximize"})
    trials = [
        replace(trial(0), told=Told(stopped=True), by_step={1: 0.25, 3: 0.5}),
        replace(trial(1), told=Told([float("inf")]), by_step={0: float("nan")}),
    ]
    mirror(url, "s1", "tune", [study(0, goal=one, trials=trials)])
    stopped, endless = read(url).trials
    assert (stopped.state.name, stopped.value, stopped.intermediate_values) == ("PRUNED", 0.5, {1: 0.25, 3: 0.5})
    assert endless.value == float("inf")
    assert str(endless.intermediate_values) == "{0: nan}"


def test_a_kill_half_way_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'optuna.db'}"
    two = [study(5), study(5, title="h2o")]
    mirror(url, "s1", "tune", [study(2)])
    with monkeypatch.context() as patched:
        patched.setattr(mirroring, "_write_details", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            mirror(url, "s1", "tune", two)
    assert len(read(url).trials) == 2
    assert mirror(url, "s1", "tune", two) == 8
    assert len(read(url).trials) == len(read(url, "h2o").trials) == 5


def test_two_thousand_trials_take_seconds(tmp_path: Path, pace: float) -> None:
    url = f"sqlite:///{tmp_path / 'optuna.db'}"
    mirror(url, "s1", "tune", [])
    many = study(2000)
    began = time.process_time()
    assert mirror(url, "s1", "tune", [many]) == 2000
    assert time.process_time() - began < 10.0 * pace


def test_processes_that_find_no_store_make_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new' / 'optuna.db'}"
    code = f"from orchestrator.tuner.mirror import mirror; mirror({url!r}, 's1', 'tune', [])"
    racers = [subprocess.Popen([sys.executable, "-P", "-c", code], stderr=subprocess.PIPE) for _ in range(4)]
    assert [(one.communicate(timeout=600)[1], one.returncode) for one in racers] == [(b"", 0)] * 4
    mirror(url, "s1", "tune", [study(1)])
    assert len(read(url).trials) == 1


def test_postgres_holds_the_same(tmp_path: Path, postgres_url: str) -> None:
    code = f"from orchestrator.tuner.mirror import mirror; mirror({postgres_url!r}, 's1', 'tune', [])"
    racers = [subprocess.Popen([sys.executable, "-P", "-c", code], stderr=subprocess.PIPE) for _ in range(3)]
    assert [(one.communicate(timeout=600)[1], one.returncode) for one in racers] == [(b"", 0)] * 3
    still_open = replace(trial(4), told=None, ended_ms=None)
    assert mirror(postgres_url, "s1", "tune", [study(4, trials=[*study(4).trials, still_open])]) == 5
    assert mirror(postgres_url, "s1", "tune", [study(9)]) == 5
    lite = f"sqlite:///{tmp_path / 'optuna.db'}"
    mirror(lite, "s1", "tune", [study(9)])
    storage = optuna.storages.RDBStorage(postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    there = optuna.load_study(study_name=study_name("s1", "tune", "dp_cache"), storage=storage)
    assert [replaced_id(one) for one in there.trials] == [replaced_id(one) for one in read(lite).trials]
    there.add_trial(optuna.create_trial(state=optuna.trial.TrialState.FAIL))  # ids that we left go on from ours
    assert len(there.trials) == 10
    storage.engine.dispose()


def replaced_id(one: optuna.trial.FrozenTrial) -> optuna.trial.FrozenTrial:
    one._trial_id = one.number
    return one


def test_each_program_refuses_the_databases_of_the_others(tmp_path: Path) -> None:
    """Scenario 23."""
    ours, mlflow = tmp_path / "slotsweep.db", tmp_path / "mlflow.db"
    Store.open(f"sqlite:///{ours}").close()  # else its log is written back whenever its connection is forgotten
    ensure_store(f"sqlite:///{mlflow}", str(tmp_path))
    for file in (ours, mlflow):
        before = file.read_bytes()
        with pytest.raises(TrackerRefusedError, match=r"not Optuna's .* need a database each"):
            mirror(f"sqlite:///{file}", "s1", "tune", [study(1)])
        assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://h/db", "studies go to sqlite"),
        ("nonsense", "is not a database URL"),
        ("sqlite://", "in memory ends with this process"),
    ],
)
def test_stores_that_cannot_be(url: str, reason: str) -> None:
    with pytest.raises(TrackerRefusedError, match=reason):
        mirror(url, "s1", "tune", [])


def test_a_store_of_another_version_is_left_alone(tmp_path: Path) -> None:
    import sqlite3

    url = f"sqlite:///{tmp_path / 'optuna.db'}"
    mirror(url, "s1", "tune", [])
    with sqlite3.connect(tmp_path / "optuna.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v9.9.9.z'")
    with pytest.raises(TrackerRefusedError, match="optuna storage upgrade"):
        mirror(url, "s1", "tune", [study(1)])


def test_long_names_fit_and_stay_apart() -> None:
    first, second = (study_name("s1", "x" * 600, title) for title in ("a", "b"))
    assert len(first) == 512
    assert first != second
