"""The rules that every change of state passes, in order, inside the transaction that makes it.

A rule turns a proposed change into a condition on the row that is to change; a change happens to the rows on which
every rule's condition holds, and to no other. Triggers in the database hold the first rule once more, against any
other client (see `triggers.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, exists, literal

from orchestrator.store import schema
from orchestrator.store.states import REASONS, SWEEP_CHANGES, TRIAL_CHANGES, SweepState, TrialState


@dataclass(frozen=True)
class TrialChange:
    """A proposed change of trials.

    to       the state they shall have
    holder   the attempt that must hold them now, or a column that names one for each; None where no attempt may
    reason   why they failed, wait again or were cancelled
    """

    to: TrialState
    holder: int | ColumnElement[int] | None = None
    reason: str | None = None


@dataclass(frozen=True)
class SweepChange:
    """A proposed change of a sweep."""

    to: SweepState


Condition = ColumnElement[bool]
TrialRule = Callable[[TrialChange], Condition]
SweepRule = Callable[[SweepChange], Condition]


def trial_change_is_allowed(change: TrialChange) -> Condition:
    """The present state has an arrow to the proposed one."""
    return schema.trials.c.state.in_([before for before, after in TRIAL_CHANGES.items() if change.to in after])


def the_holder_is_fenced(change: TrialChange) -> Condition:
    """Only the attempt that holds a trial speaks for it; a trial that nobody holds can be taken or cancelled."""
    return schema.trials.c.attempt == change.holder if change.holder is not None else schema.trials.c.attempt.is_(None)


def done_means_there_is_a_result(change: TrialChange) -> Condition:
    """No trial is done without its result stored in the same transaction."""
    if change.to != TrialState.DONE:
        return literal(True)
    return exists().where(schema.results.c.trial == schema.trials.c.id)


def failure_has_one_known_reason(change: TrialChange) -> Condition:
    """Failed and cancelled trials say why."""
    needed = change.to in (TrialState.FAILED, TrialState.CANCELLED)
    return literal(not needed or change.reason in REASONS)


def sweep_change_is_allowed(change: SweepChange) -> Condition:
    """The present state has an arrow to the proposed one."""
    return schema.sweeps.c.state.in_([before for before, after in SWEEP_CHANGES.items() if change.to in after])


def ended_means_nothing_is_open(change: SweepChange) -> Condition:
    """A sweep is done or failed only when none of its trials waits or runs."""
    if change.to not in (SweepState.DONE, SweepState.FAILED):
        return literal(True)
    links, trials = schema.sweep_trials.c, schema.trials.c
    return ~exists().where(
        links.sweep == schema.sweeps.c.id,
        trials.id == links.trial,
        trials.state.in_([TrialState.PENDING, TrialState.LEASED]),
    )


TRIAL_RULES: tuple[TrialRule, ...] = (
    trial_change_is_allowed,
    the_holder_is_fenced,
    done_means_there_is_a_result,
    failure_has_one_known_reason,
)
SWEEP_RULES: tuple[SweepRule, ...] = (sweep_change_is_allowed, ended_means_nothing_is_open)


def trials_that_may(change: TrialChange) -> Condition:
    """The condition that every trial rule holds."""
    return and_(*(rule(change) for rule in TRIAL_RULES))


def sweeps_that_may(change: SweepChange) -> Condition:
    """The condition that every sweep rule holds."""
    return and_(*(rule(change) for rule in SWEEP_RULES))
