"""Carries deliveries from an outbox to a tracker: in order, in bulk, and as often as it takes."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from orchestrator.tracker.records import ParentRun, TrialRun
from orchestrator.tracker.tracker import Tracker, TrackerRefusedError, TrackerUnavailableError

if TYPE_CHECKING:
    import tenacity

logger = logging.getLogger(__name__)

MOST_HELD = 1000
FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """One run to be written; `id` is the outbox's."""

    id: int
    run: ParentRun | TrialRun


class Source(Protocol):
    """An outbox: what it hands out stays in it until it is told `done` or `refused`."""

    def next(self, limit: int) -> Sequence[Delivery]:
        """The oldest deliveries, at most `limit`, in order; empty if there are none."""

    def done(self, ids: Sequence[int]) -> None:
        """These are written."""

    def refused(self, id: int, reason: str) -> None:
        """This one can never be written."""


def drain(source: Source, tracker: Tracker, stop: threading.Event, limit: int = MOST_HELD) -> int:
    """Deliver until `source` is empty or `stop` is set; return how many were written.

    While the tracker cannot be reached the same deliveries are tried again, with waits that double up to half a
    minute; `stop` ends a wait at once. At most `limit` deliveries are in memory, and no more than the tracker writes at
    once. A delivery that the tracker refuses is handed back with the reason and does not hold up the others.
    """
    written = 0
    while not stop.is_set():
        deliveries = source.next(min(limit, tracker.most_together))
        if not deliveries:
            break
        for _, group in itertools.groupby(deliveries, key=_group):
            count = _deliver(source, tracker, list(group), stop)
            if count is None:
                return written
            written += count
    return written


def _group(delivery: Delivery) -> int | None:
    """Neighbours of equal value are written together: trials among themselves, a sweep's run alone."""
    return None if isinstance(delivery.run, TrialRun) else delivery.id


def _deliver(source: Source, tracker: Tracker, group: Sequence[Delivery], stop: threading.Event) -> int | None:
    """Write `group` and say so to `source`; how many were written, or None if `stop` came first."""
    try:
        if not _until_reachable(lambda: _write(tracker, group), stop):
            return None
    except TrackerRefusedError as error:
        if len(group) == 1:
            logger.warning("the tracker refuses delivery %d: %s", group[0].id, error)
            source.refused(group[0].id, str(error))
            return 0
        counts = [_deliver(source, tracker, [delivery], stop) for delivery in group]
        return None if None in counts else sum(count or 0 for count in counts)
    source.done([delivery.id for delivery in group])
    return len(group)


def _write(tracker: Tracker, group: Sequence[Delivery]) -> None:
    trials = [delivery.run for delivery in group if isinstance(delivery.run, TrialRun)]
    if trials:
        tracker.write_trials(trials)
    for delivery in group:
        if isinstance(delivery.run, ParentRun):
            tracker.write_parent(delivery.run)


def _until_reachable(write: Callable[[], None], stop: threading.Event) -> bool:
    """Call `write` until the tracker can be reached; False if `stop` was set first."""
    import tenacity

    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(TrackerUnavailableError),
        wait=tenacity.wait_exponential(FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS),
        stop=tenacity.stop_when_event_set(stop),
        sleep=tenacity.sleep_using_event(stop),
        before_sleep=_report,
    )
    try:
        attempts(write)
    except tenacity.RetryError:
        return False
    return True


def _report(state: tenacity.RetryCallState) -> None:
    if state.attempt_number == 1 and state.outcome is not None:
        logger.warning("the tracker cannot be reached, runs will appear later: %s", state.outcome.exception())
