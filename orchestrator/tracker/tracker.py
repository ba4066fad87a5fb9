"""The seam between sweeps and the place where their runs are shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from orchestrator.tracker.records import ParentRun, Place, RunStatus, TrialRun


class TrackerUnavailableError(Exception):
    """The store cannot be reached or is busy: the same call may succeed later. Nothing is lost by repeating it."""


class TrackerRefusedError(Exception):
    """The store will not take this, now or later: the text says what and why."""


class Tracker(ABC):
    """Writes runs to one store.

    A delivery holds the whole run as it is now. Writing it twice, or again after a crash half-way, leaves the same one
    run; writing it with another status, end time, metric or tag updates it. A start time and params stay as first
    written, and so do a name, tags and an experiment's description that a person gave. Every method raises
    TrackerUnavailableError or TrackerRefusedError.
    """

    most_together: ClassVar[int] = 500
    """Runs that are worth writing at once; a write cannot be stopped half-way but by force."""

    @abstractmethod
    def prepare(self) -> None:
        """Reach the store and, where it is ours to do, create its schema. Safe in several processes at once."""

    @abstractmethod
    def write_parent(self, run: ParentRun) -> None:
        """Write a sweep's run, its experiment (created, or restored if it was deleted) and its artifacts."""

    @abstractmethod
    def write_trials(self, runs: Sequence[TrialRun]) -> None:
        """Write trials' runs, some thousands at most; of several deliveries of one run the last stands."""

    @abstractmethod
    def close_orphans(self, experiment: str, parent_run_id: str, status: RunStatus, end_ms: int) -> int:
        """End the runs of a sweep, itself included, that still say RUNNING; return how many."""

    @abstractmethod
    def find(self, experiment: str, run_id: str) -> Place | None:
        """Where the run of a sweep is; None if it was never written. Creates nothing."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections. The tracker may be used again."""
