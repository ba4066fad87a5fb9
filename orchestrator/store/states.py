"""States, the changes allowed between them, and the reasons of failure."""

from __future__ import annotations

from enum import StrEnum


class SweepState(StrEnum):
    """queued → running ⇄ paused → done | failed | cancelled."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TrialState(StrEnum):
    """pending → leased → done | failed | cancelled."""

    PENDING = "pending"
    LEASED = "leased"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


SWEEP_CHANGES: dict[SweepState, frozenset[SweepState]] = {
    SweepState.QUEUED: frozenset({SweepState.RUNNING, SweepState.CANCELLED}),
    SweepState.RUNNING: frozenset({SweepState.PAUSED, SweepState.DONE, SweepState.FAILED, SweepState.CANCELLED}),
    SweepState.PAUSED: frozenset({SweepState.RUNNING, SweepState.CANCELLED}),
    SweepState.DONE: frozenset(),
    SweepState.FAILED: frozenset({SweepState.RUNNING}),
    SweepState.CANCELLED: frozenset({SweepState.RUNNING}),
}

ENDED = frozenset({SweepState.DONE, SweepState.FAILED, SweepState.CANCELLED})

INFRASTRUCTURE_REASONS = frozenset({"worker_lost"})
CODE_REASONS = frozenset({"user_error", "no_result", "not_a_number", "timeout", "out_of_memory"})
FREE_REASONS = frozenset({"preempted", "cancelled"})
"""Nobody's fault: the trial waits again and no retry is spent."""

REASONS = tuple(sorted(INFRASTRUCTURE_REASONS | CODE_REASONS | FREE_REASONS))
