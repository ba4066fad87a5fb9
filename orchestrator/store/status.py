"""A sweep at a glance, as lists show it and as those who watch it ask for again and again."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.store.records import Counts


@dataclass(frozen=True)
class SweepStatus:
    """A sweep without its spec and code, with its trials counted. Times are seconds since the epoch.

    user          who submitted it to a service; None: it was submitted on the store itself
    trials        as asked for so far; reused: those of them that were done already
    report        where its report lies, once there is one
    seconds_left, waiting, growth   what whoever runs it said last of the rest, as in `OutlookRow`; of a sweep that is
                  paused, and not by its user, `waiting` says why
    """

    id: str
    name: str
    kind: str
    state: str
    priority: int
    user: str | None
    trials: int
    reused: int
    created: float
    started: float | None
    finished: float | None
    report: str | None
    counts: Counts
    seconds_left: float | None = None
    waiting: str | None = None
    growth: str | None = None
