"""Steering sweeps: pause, queue again, cancel, retry. Whoever runs a sweep finds out from the store.

Each function gives the number of trials that are opened again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.errors import RequestError
from orchestrator.store.states import SweepState, TrialState

if TYPE_CHECKING:
    from orchestrator.store.status import SweepStatus
    from orchestrator.store.store import Store


def pause_sweep(store: Store, sweep: SweepStatus) -> int:
    """Hand out no more of its trials; what runs is finished. Raises RequestError if it has ended."""
    if sweep.state != SweepState.PAUSED and not store.set_sweep_state(sweep.id, SweepState.PAUSED):
        raise RequestError(f"sweep {sweep.id} is {sweep.state}: only a queued or running sweep can be paused")
    return 0


def resume_sweep(store: Store, sweep: SweepStatus) -> int:
    """Queue what is missing of a sweep, unless somebody is at it; of one that was cancelled, what was given up too."""
    if sweep.state == SweepState.PAUSED:
        store.set_sweep_state(sweep.id, SweepState.QUEUED)
    elif sweep.state in (SweepState.CANCELLED, SweepState.FAILED):
        return store.retry(sweep.id, [TrialState.CANCELLED])
    return 0


def cancel_sweep(store: Store, sweep: SweepStatus) -> int:
    """End it: its waiting trials are cancelled, results stay. Raises RequestError if it has ended otherwise."""
    if sweep.state != SweepState.CANCELLED and not store.set_sweep_state(sweep.id, SweepState.CANCELLED):
        raise RequestError(f"sweep {sweep.id} is {sweep.state} already: nothing to cancel")
    store.expire()
    store.cancel_pending(sweep.id)
    return 0


def retry_sweep(store: Store, sweep: SweepStatus) -> int:
    """Queue its failed and cancelled trials again, as new generations."""
    return store.retry(sweep.id, [TrialState.FAILED, TrialState.CANCELLED])
