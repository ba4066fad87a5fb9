"""Studies written to Optuna's own store, where optuna-dashboard and Optuna's command line read them.

Adding trials through Optuna costs some 20 ms each on SQLite. Here all that is new goes into Optuna's tables in one
transaction; tests compare every field with what Optuna writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, case, delete, func, insert, select

from orchestrator.tuner.live import Told
from orchestrator.tuner.optuna_store import errors_named, open_store, writing
from orchestrator.tuner.samplers import distribution_of
from tasks.search import Goal, Parameter, Params

NAME_LENGTH = 512
"""Characters that the name of a study can have in Optuna's tables."""

METRIC_NAMES = "study:metric_names"
"""Where Optuna keeps the names of objectives."""


@dataclass(frozen=True)
class MirroredTrial:
    """A proposal. told: None while it is open; times in ms since 1970; notes: shown as user attributes, JSON."""

    number: int
    params: Params
    told: Told | None
    started_ms: int
    ended_ms: int | None = None
    by_step: Mapping[int, float] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MirroredStudy:
    """A study with all proposals that it has made. title: unique within its sweep; notes: as those of a trial."""

    title: str
    goal: Goal
    parameters: tuple[Parameter, ...]
    trials: Sequence[MirroredTrial]
    notes: Mapping[str, Any] = field(default_factory=dict)


def study_name(sweep_id: str, name: str, title: str) -> str:
    """What a study is called in Optuna's store."""
    tail = f" {sweep_id} / {title}"
    return f"{name[: max(0, NAME_LENGTH - len(tail))]}{tail}"[:NAME_LENGTH]


def mirror(url: str, sweep_id: str, name: str, studies: Sequence[MirroredStudy]) -> int:
    """Bring the studies of a sweep up to date in the store at `url`, all at once; return how many trials were written.

    What is there already stays; a trial whose state has changed is replaced. Raises TrackerUnavailableError or
    TrackerRefusedError.
    """
    engine = open_store(url)
    try:
        with writing(engine) as connection:
            return sum(_bring_up_to_date(connection, study_name(sweep_id, name, one.title), one) for one in studies)
    finally:
        engine.dispose()


def trials_told(url: str, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Of each study (a name in Optuna's store) that is there: trials that have ended, and those among them that failed.

    Raises as `mirror`.
    """
    from optuna.storages._rdb import models
    from optuna.trial import TrialState

    studies, trials = models.StudyModel.__table__, models.TrialModel.__table__
    ended, failed = trials.c.state != TrialState.RUNNING, trials.c.state == TrialState.FAIL
    query = (
        select(studies.c.study_name, *(func.coalesce(func.sum(case((one, 1), else_=0)), 0) for one in (ended, failed)))
        .outerjoin(trials, trials.c.study_id == studies.c.study_id)
        .group_by(studies.c.study_name)
    )
    found: dict[str, tuple[int, int]] = {}
    engine = open_store(url)
    try:
        with errors_named(engine), engine.connect() as connection:
            for start in range(0, len(names), 500):
                part = query.where(studies.c.study_name.in_(names[start : start + 500]))
                found |= {name: (int(told), int(lost)) for name, told, lost in connection.execute(part)}
    finally:
        engine.dispose()
    return found


def _bring_up_to_date(connection: Connection, name: str, study: MirroredStudy) -> int:
    from optuna.storages._rdb import models

    table = models.TrialModel.__table__
    study_id = _find_or_create(connection, name, study)
    query = select(table.c.number, table.c.trial_id, table.c.state).where(table.c.study_id == study_id)
    there = {row.number: row for row in connection.execute(query)}
    changed = [one for one in study.trials if one.number not in there or there[one.number].state != _state(one)]
    changed.sort(key=lambda one: one.number)
    _forget(connection, [there[one.number].trial_id for one in changed if one.number in there])
    rows = [
        {
            "number": one.number,
            "study_id": study_id,
            "state": _state(one),
            "datetime_start": _time(one.started_ms),
            "datetime_complete": None if one.told is None else _time(one.ended_ms or one.started_ms),
        }
        | ({"trial_id": there[one.number].trial_id} if one.number in there else {})
        for one in changed
    ]
    ids: dict[int, int] = {}
    for part in ([row for row in rows if "trial_id" in row], [row for row in rows if "trial_id" not in row]):
        if part:
            returning = insert(table).returning(table.c.number, table.c.trial_id)
            ids.update((row.number, row.trial_id) for row in connection.execute(returning, part))
    _write_details(connection, study, [(ids[one.number], one) for one in changed])
    return len(changed)


def _find_or_create(connection: Connection, name: str, study: MirroredStudy) -> int:
    from optuna.storages._rdb import models
    from optuna.study import StudyDirection

    table = models.StudyModel.__table__
    found = connection.execute(select(table.c.study_id).where(table.c.study_name == name)).scalar_one_or_none()
    if found is not None:
        return int(found)
    made = int(connection.execute(insert(table).returning(table.c.study_id), {"study_name": name}).scalar_one())
    directions = [
        {"study_id": made, "objective": index, "direction": StudyDirection[direction.upper()]}
        for index, direction in enumerate(study.goal.directions)
    ]
    connection.execute(insert(models.StudyDirectionModel.__table__), directions)
    _insert(
        connection,
        models.StudySystemAttributeModel,
        _attributes("study_id", made, {METRIC_NAMES: [*study.goal.objectives]}),
    )
    _insert(connection, models.StudyUserAttributeModel, _attributes("study_id", made, study.notes))
    return made


def _state(trial: MirroredTrial) -> Any:
    from optuna.trial import TrialState

    if trial.told is None:
        return TrialState.RUNNING
    if trial.told.stopped:
        return TrialState.PRUNED
    return TrialState.FAIL if trial.told.values is None else TrialState.COMPLETE


def _values(trial: MirroredTrial) -> list[float]:
    if trial.told is None:
        return []
    if trial.told.stopped:
        return [trial.by_step[max(trial.by_step)]] if trial.by_step else []
    return [float(value) for value in trial.told.values or ()]


def frozen_trial(study: MirroredStudy, trial: MirroredTrial) -> Any:
    """The proposal as Optuna has it."""
    from optuna.trial import create_trial

    distributions = {one.name: distribution_of(one) for one in study.parameters if one.name in trial.params}
    made = create_trial(
        state=_state(trial),
        params=dict(trial.params),
        distributions=distributions,
        values=_values(trial) or None,
        user_attrs=dict(trial.notes),
        intermediate_values=dict(trial.by_step),
        constraints=dict(trial.told.violations) if trial.told else {},
    )
    made.datetime_start = datetime.fromtimestamp(trial.started_ms / 1000)
    if trial.told is not None:
        made.datetime_complete = datetime.fromtimestamp((trial.ended_ms or trial.started_ms) / 1000)
    return made


def _time(ms: int) -> datetime:
    """As Optuna stores times: UTC, without saying so."""
    return datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None)


def _forget(connection: Connection, trial_ids: Sequence[int]) -> None:
    from optuna.storages._rdb import models

    details = (
        models.TrialParamModel,
        models.TrialValueModel,
        models.TrialIntermediateValueModel,
        models.TrialUserAttributeModel,
        models.TrialSystemAttributeModel,
        models.TrialHeartbeatModel,
    )
    for start in range(0, len(trial_ids), 500):
        for model in (*details, models.TrialModel):
            table = model.__table__
            connection.execute(delete(table).where(table.c.trial_id.in_(trial_ids[start : start + 500])))


def _write_details(connection: Connection, study: MirroredStudy, trials: Sequence[tuple[int, MirroredTrial]]) -> None:
    from optuna.storages._rdb import models
    from optuna.study._constrained_optimization import _CONSTRAINTS_KEY

    _insert(connection, models.TrialParamModel, _param_rows(study, trials))
    value_of, step_of = models.TrialValueModel, models.TrialIntermediateValueModel
    values = []
    for trial_id, one in trials:
        for objective, value in enumerate(_values(one)):
            stored, kind = value_of.value_to_stored_repr(value)
            values.append({"trial_id": trial_id, "objective": objective, "value": stored, "value_type": kind})
    _insert(connection, value_of, values)
    steps = []
    for trial_id, one in trials:
        for step, value in one.by_step.items():
            stored, kind = step_of.intermediate_value_to_stored_repr(float(value))
            row = {"trial_id": trial_id, "step": step, "intermediate_value": stored, "intermediate_value_type": kind}
            steps.append(row)
    _insert(connection, step_of, steps)
    notes = [row for trial_id, one in trials for row in _attributes("trial_id", trial_id, one.notes)]
    _insert(connection, models.TrialUserAttributeModel, notes)
    constraints = [
        row
        for trial_id, one in trials
        if one.told is not None
        for row in _attributes(
            "trial_id",
            trial_id,
            {f"{_CONSTRAINTS_KEY}:{name}": float(beyond) for name, beyond in one.told.violations.items()},
        )
    ]
    _insert(connection, models.TrialSystemAttributeModel, constraints)


def _param_rows(study: MirroredStudy, trials: Iterable[tuple[int, MirroredTrial]]) -> list[dict[str, Any]]:
    from optuna.distributions import distribution_to_json

    distributions = {one.name: distribution_of(one) for one in study.parameters}
    texts = {name: distribution_to_json(one) for name, one in distributions.items()}
    return [
        {
            "trial_id": trial_id,
            "param_name": name,
            "param_value": float(distributions[name].to_internal_repr(value)),
            "distribution_json": texts[name],
        }
        for trial_id, one in trials
        for name, value in one.params.items()
    ]


def _attributes(owner: str, owner_id: int, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{owner: owner_id, "key": key, "value_json": json.dumps(value)} for key, value in values.items()]


def _insert(connection: Connection, model: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        connection.execute(insert(model.__table__), list(rows))
