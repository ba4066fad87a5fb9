"""What users of the service do to sweeps: which of it a sweep's state allows, and who may."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from orchestrator.client.base import Changed
from orchestrator.service.access import Caller, ForbiddenError
from orchestrator.steering import cancel_sweep, pause_sweep, resume_sweep, retry_sweep
from orchestrator.store.states import SweepState
from orchestrator.store.status import SweepStatus
from orchestrator.store.store import Store


class Action(StrEnum):
    """What can be done to a sweep."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"


DEEDS: dict[Action, Callable[[Store, SweepStatus], int]] = {
    Action.PAUSE: pause_sweep,
    Action.RESUME: resume_sweep,
    Action.CANCEL: cancel_sweep,
    Action.RETRY: retry_sweep,
}

ON_THE_WAY = (SweepState.QUEUED, SweepState.RUNNING)
GIVEN_UP = (SweepState.CANCELLED, SweepState.FAILED)


def open_actions(caller: Caller, sweep: SweepStatus) -> tuple[Action, ...]:
    """What `caller` may do to `sweep` as it stands, and what would change something."""
    if not caller.may_steer(sweep.user):
        return ()
    paused = sweep.state == SweepState.PAUSED
    given_up = sweep.state in GIVEN_UP and sweep.counts.cancelled > 0
    changes = {
        Action.PAUSE: sweep.state in ON_THE_WAY,
        Action.RESUME: paused or given_up,
        Action.CANCEL: sweep.state in ON_THE_WAY or paused,
        Action.RETRY: sweep.counts.failed > 0,
    }
    return tuple(action for action, does in changes.items() if does)


def steer(store: Store, caller: Caller, identity: str, action: Action) -> Changed:
    """Do `action` to a sweep (an id) for `caller`; the sweep as it stands then, and how many trials wait again.

    Raises NotThereError, ForbiddenError, and RequestError where its state does not let that be done.
    """
    sweep = store.status(identity)
    if not caller.may_steer(sweep.user):
        owner = "was submitted without the service" if sweep.user is None else f"is {sweep.user}'s"
        who = "an admin" if sweep.user is None else f"{sweep.user} or an admin"
        raise ForbiddenError(f"sweep {sweep.id} {owner}: only {who} may {action} it")
    trials = DEEDS[action](store, sweep)
    return Changed(store.status(sweep.id), trials)
