"""States, the changes allowed between them, the reasons of failure, roles and kinds of events."""

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


CANNOT_RUN = "it cannot be run: "
"""How what is told of a sweep begins that is paused since it could not even begin."""


class TrialState(StrEnum):
    """pending → leased → done | failed | cancelled."""

    PENDING = "pending"
    LEASED = "leased"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Role(StrEnum):
    """What a user of the service may do: look; submit sweeps and steer their own; everything."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    ADMIN = "admin"

    def covers(self, role: Role) -> bool:
        """Whether who has this role may do what `role` may."""
        order = list(Role)
        return order.index(self) >= order.index(role)


class EventKind(StrEnum):
    """What webhooks tell of: a sweep that ended, a worker that was quarantined."""

    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"


SWEEP_CHANGES: dict[SweepState, frozenset[SweepState]] = {
    SweepState.QUEUED: frozenset({SweepState.RUNNING, SweepState.PAUSED, SweepState.CANCELLED}),
    SweepState.RUNNING: frozenset({SweepState.PAUSED, SweepState.DONE, SweepState.FAILED, SweepState.CANCELLED}),
    SweepState.PAUSED: frozenset({SweepState.QUEUED, SweepState.RUNNING, SweepState.CANCELLED}),
    SweepState.DONE: frozenset({SweepState.QUEUED}),
    SweepState.FAILED: frozenset({SweepState.QUEUED}),
    SweepState.CANCELLED: frozenset({SweepState.QUEUED}),
}
"""An ended sweep is queued again when trials are added to it or retried."""

TRIAL_CHANGES: dict[TrialState, frozenset[TrialState]] = {
    TrialState.PENDING: frozenset({TrialState.LEASED, TrialState.CANCELLED}),
    TrialState.LEASED: frozenset({TrialState.PENDING, TrialState.DONE, TrialState.FAILED}),
    TrialState.DONE: frozenset(),
    TrialState.FAILED: frozenset(),
    TrialState.CANCELLED: frozenset(),
}
"""An ended trial never changes: to compute it again is to open its key's next generation."""

ENDED = frozenset({SweepState.DONE, SweepState.FAILED, SweepState.CANCELLED})

INFRASTRUCTURE_REASONS = frozenset({"worker_lost"})
CODE_REASONS = frozenset({"user_error", "no_result", "not_a_number", "timeout", "out_of_memory"})
FREE_REASONS = frozenset({"preempted", "cancelled"})
"""Nobody's fault: the trial waits again and no retry is spent."""

SPLIT_REASONS = frozenset({"timeout", "out_of_memory", "worker_lost"})
"""A batch that fails so is tried again in smaller batches, until the trial that is to blame is alone."""

REASONS = tuple(sorted(INFRASTRUCTURE_REASONS | CODE_REASONS | FREE_REASONS))
