"""What every part of the store shares: inserts that skip what is there, and changes of state by the rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Engine, Select, Table, delete, func, insert, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite

from orchestrator.store import schema
from orchestrator.store.many import among, held
from orchestrator.store.records import Counts
from orchestrator.store.rules import TrialChange, trials_that_may
from orchestrator.store.states import TrialState


class StorePart:
    """A part of the store; parts share one engine."""

    engine: Engine


def insert_new(connection: Connection, table: Table) -> Any:
    """An INSERT that leaves rows alone that are there already."""
    return insert_or(connection, table).on_conflict_do_nothing()


def insert_or(connection: Connection, table: Table) -> Any:
    """An INSERT that can be told what to do with rows that are there already."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)


def change_trials(
    connection: Connection, trials: Collection[int], change: TrialChange, values: Mapping[str, Any] | None = None
) -> list[int]:
    """Change the state of those of `trials` that every rule lets change; their ids. `values` are set with it."""
    columns = schema.trials.c
    statement = (
        update(schema.trials)
        .where(among(connection, columns.id, trials), trials_that_may(change))
        .values({"state": change.to, "reason": change.reason, "attempt": None, **(values or {})})
        .returning(columns.id)
    )
    changed = list(connection.execute(statement).scalars())
    if change.to in (TrialState.DONE, TrialState.FAILED, TrialState.CANCELLED):
        notify_trials(connection, changed)
    return changed


def lease_trials(connection: Connection, holders: Mapping[int, int]) -> dict[int, int]:
    """Lease trials to the attempts that `holders` names for them, those that every rule lets be leased; these."""
    columns = schema.trials.c
    named, attempt = held(connection, columns.id, holders)
    statement = (
        update(schema.trials)
        .where(named, trials_that_may(TrialChange(TrialState.LEASED)))
        .values(
            state=TrialState.LEASED,
            reason=None,
            attempt=attempt,
            attempts=columns.attempts + 1,
            message=None,
        )
        .returning(columns.id)
    )
    leased = connection.execute(statement).scalars()
    return {trial: holders[trial] for trial in leased}


def holders_of(connection: Connection, trials: Collection[int]) -> Select[Any]:
    """The attempts that hold `trials`, and which: (attempt, trial)."""
    columns = schema.trials.c
    return select(columns.attempt, columns.id).where(among(connection, columns.id, trials))


def held_by(connection: Connection, attempts: Collection[int]) -> Select[Any]:
    """The trials that `attempts` hold now: (attempt, trial). It looks at all that they were ever given."""
    links, trials = schema.attempt_trials.c, schema.trials.c
    return (
        select(trials.attempt, trials.id)
        .join_from(schema.attempt_trials, schema.trials, trials.id == links.trial)
        .where(among(connection, links.attempt, attempts), trials.attempt == links.attempt)
    )


def finish_trials(connection: Connection, holders: Mapping[int, int]) -> None:
    """Note that trials are done of which the attempts that `holders` names brought a result."""
    columns = schema.trials.c
    named, attempt = held(connection, columns.id, holders)
    statement = (
        update(schema.trials)
        .where(named, trials_that_may(TrialChange(TrialState.DONE, holder=attempt)))
        .values(state=TrialState.DONE, reason=None, attempt=None, message=None)
        .returning(columns.id)
    )
    notify_trials(connection, list(connection.execute(statement).scalars()))


def notify_sweep(connection: Connection, sweep: str) -> None:
    """Tell the tracker that the sweep itself changed."""
    connection.execute(insert(schema.outbox).values(sweep=sweep, trial=None, reused=False))


def forget_outlook(connection: Connection, sweep: str) -> None:
    """Nothing is told of the sweep any more that was to be expected of it."""
    connection.execute(delete(schema.outlooks).where(schema.outlooks.c.sweep == sweep))


def notify_trials(connection: Connection, trials: Collection[int]) -> None:
    """Tell the tracker of each trial's outcome, once for each sweep that asked for it."""
    links = schema.sweep_trials.c
    connection.execute(
        insert(schema.outbox).from_select(
            ["sweep", "trial", "reused"],
            select(links.sweep, links.trial, literal(False))
            .where(among(connection, links.trial, trials))
            .order_by(links.trial),
        )
    )


def count_states(connection: Connection, sweep: str) -> Counts:
    """The sweep's trials by state."""
    links, trials = schema.sweep_trials.c, schema.trials.c
    rows = connection.execute(
        select(trials.state, func.count())
        .join(schema.sweep_trials, trials.id == links.trial)
        .where(links.sweep == sweep)
        .group_by(trials.state)
    ).all()
    return Counts(**dict(rows))
