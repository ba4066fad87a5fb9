"""Watching sweeps that a service runs, until they are over; Ctrl-C pauses or cancels them there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from orchestrator.caps import USED_UP
from orchestrator.errors import PreparationError, RequestError
from orchestrator.job import Progress
from orchestrator.store.states import CANNOT_RUN, ENDED, SweepState
from orchestrator.store.status import SweepStatus

if TYPE_CHECKING:
    from orchestrator.client.base import Outcome
    from orchestrator.scheduler import StopRequest

POLL_SECONDS = 1.0
SECONDS_A_SWEEP = 0.1
"""Of a suite's sweeps each is asked for less often."""

MOMENT = 0.1
QUEUED = "the service runs it when its turn comes"


class Watched(Protocol):
    """What is asked of the service."""

    def sweep(self, name: str) -> SweepStatus:
        """One sweep."""

    def sweep_now(self, name: str) -> SweepStatus:
        """The same, surely as it is now."""

    def pause(self, name: str) -> SweepStatus:
        """Pause it."""

    def cancel(self, name: str) -> SweepStatus:
        """Cancel it."""

    def outcome(self, sweep: SweepStatus, seconds: float) -> Outcome:
        """How it was left."""


class Watch:
    """Watches some sweeps."""

    def __init__(self, service: Watched, on_progress: Callable[[Progress], None], stop: StopRequest) -> None:
        self._service = service
        self._on_progress = on_progress
        self._stop = stop
        self._asked: set[str] = set()
        self._began = time.monotonic()
        self._told: dict[str, Progress] = {}

    def until_over(self, sweeps: Sequence[str], deserted: Callable[[], bool] = lambda: False) -> list[Outcome]:
        """Watch until each has ended, or is paused and nothing of it runs; or until nobody runs them any more."""
        left = list(sweeps)
        outcomes: list[Outcome] = []
        while left and not deserted():
            self._heed_interrupts(left)
            for status in map(self._service.sweep, list(left)):
                self._tell(status)
                if is_over(status) and is_over(status := self._service.sweep_now(status.id)):
                    left.remove(status.id)
                    outcomes.append(self._service.outcome(status, time.monotonic() - self._began))
            if left:
                self._rest(max(POLL_SECONDS, SECONDS_A_SWEEP * len(left)))
        return outcomes

    def _heed_interrupts(self, left: Sequence[str]) -> None:
        """Ask for what Ctrl-C means, once of each sweep."""
        action = self._wanted()
        for sweep in left if action is not None and action not in self._asked else ():
            with suppress(RequestError):  # it has just ended
                (self._service.cancel if action == "cancel" else self._service.pause)(sweep)
        if action is not None:
            self._asked.add(action)

    def _wanted(self) -> str | None:
        if self._stop.cancel.is_set():
            return "cancel"
        return "pause" if self._stop.drain.is_set() else None

    def _tell(self, status: SweepStatus) -> None:
        """Tell how far a sweep is, if that is news."""
        progress = progress_of(status)
        if progress != self._told.get(status.id):
            self._told[status.id] = progress
            self._on_progress(progress)

    def _rest(self, seconds: float) -> None:
        """Wait, but not for long once Ctrl-C was pressed."""
        until = time.monotonic() + seconds
        before = self._wanted()
        while time.monotonic() < until and self._wanted() == before:
            time.sleep(MOMENT)


def unable(status: SweepStatus) -> str | None:
    """Why a sweep could not be run at all, so that it waits; None: it was run."""
    told = status.waiting or ""
    is_unable = status.state == SweepState.PAUSED and told.startswith(CANNOT_RUN)
    return told.removeprefix(CANNOT_RUN) if is_unable else None


def refuse_unable(outcomes: list[Outcome]) -> list[Outcome]:
    """`outcomes`. Raises PreparationError, as who runs sweeps does, if none of the sweeps could be run."""
    if outcomes and all(one.broken for one in outcomes):
        told = (f"sweep {one.sweep.id} ({one.sweep.name}) is {one.sweep.state}: {one.broken}" for one in outcomes)
        raise PreparationError("; ".join(told))
    return outcomes


def used_up(status: SweepStatus) -> str | None:
    """Which cap a sweep has used up, in words; None: none."""
    told = status.waiting if status.state == SweepState.PAUSED else None
    return told if told is not None and told.startswith(USED_UP) else None


def is_over(status: SweepStatus) -> bool:
    """Whether nothing more will come of a sweep by itself."""
    return status.state in ENDED or (status.state == SweepState.PAUSED and not status.counts.leased)


def progress_of(status: SweepStatus) -> Progress:
    """How far a sweep is, as progress bars show it."""
    counts = status.counts
    waiting = QUEUED if status.state == SweepState.QUEUED and status.waiting is None else status.waiting
    started = status.started is not None and counts.done + counts.failed > status.reused
    return Progress(
        sweep=status.id,
        name=status.name,
        total=counts.total,
        done=counts.done,
        failed=counts.failed + counts.cancelled,
        computed=counts.done + counts.failed,
        seconds=1.0 if started or status.state in ENDED else 0.0,
        waiting=waiting,
        left=0.0 if status.state in ENDED else status.seconds_left,
        growth=status.growth,
    )
