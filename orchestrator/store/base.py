"""What every part of the store shares: chunks, inserts that skip what is there, and changes of state by the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Table, func, insert, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite

from orchestrator.store import schema
from orchestrator.store.chunks import chunks
from orchestrator.store.records import Counts
from orchestrator.store.rules import TrialChange, trials_that_may
from orchestrator.store.states import TrialState


class StorePart:
    """A part of the store; parts share one engine."""

    engine: Engine


def insert_new(connection: Connection, table: Table) -> Any:
    """An INSERT that leaves rows alone that are there already."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table).on_conflict_do_nothing()


def change_trials(
    connection: Connection, trials: Sequence[int], change: TrialChange, values: Mapping[str, Any] | None = None
) -> list[int]:
    """Change the state of those of `trials` that every rule lets change; their ids. `values` are set with it."""
    columns = schema.trials.c
    leased = change.to == TrialState.LEASED
    changed: list[int] = []
    for chunk in chunks(trials):
        statement = (
            update(schema.trials)
            .where(columns.id.in_(chunk), trials_that_may(change))
            .values(
                {"state": change.to, "reason": change.reason, **({} if leased else {"attempt": None}), **(values or {})}
            )
            .returning(columns.id)
        )
        changed += connection.execute(statement).scalars()
    if change.to in (TrialState.DONE, TrialState.FAILED, TrialState.CANCELLED):
        notify_trials(connection, changed)
    return changed


def notify_sweep(connection: Connection, sweep: str) -> None:
    """Tell the tracker that the sweep itself changed."""
    connection.execute(insert(schema.outbox).values(sweep=sweep, trial=None, reused=False))


def notify_trials(connection: Connection, trials: Sequence[int]) -> None:
    """Tell the tracker of each trial's outcome, once for each sweep that asked for it."""
    links = schema.sweep_trials.c
    for chunk in chunks(trials):
        connection.execute(
            insert(schema.outbox).from_select(
                ["sweep", "trial", "reused"],
                select(links.sweep, links.trial, literal(False)).where(links.trial.in_(chunk)).order_by(links.trial),
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
