"""Which group of sweeps is to be run now, of several that cannot be run together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.alike import Group

TURN_SECONDS = 60.0
"""How long a group runs while others of its priority wait."""

FIRST_REST_SECONDS = 1.0
LONGEST_REST_SECONDS = 60.0
"""How long a group rests that could not be run: longer each time."""

FIRST_SHELF_SECONDS = 60.0
LONGEST_SHELF_SECONDS = 600.0
"""How long sweeps that found no worker let others go first: longer each time."""


@dataclass(frozen=True)
class Candidate:
    """A sweep that is to be run."""

    id: str
    group: Group
    priority: int
    created: float


@dataclass
class _Delay:
    until: float
    seconds: float


class Turns:
    """Decides by priority, then by turns: of equals the group goes on that has not run for the longest time.

    Sweeps that no worker could take hold nobody up: while others can run, they are passed over for a while. Groups that
    could not be run at all rest for a while. Times are seconds on one clock that does not go back.
    """

    def __init__(self, turn_seconds: float = TURN_SECONDS) -> None:
        self._turn_seconds = turn_seconds
        self._ended: dict[Group, float] = {}
        self._resting: dict[Group, _Delay] = {}
        self._shelved: dict[str, _Delay] = {}

    def choose(self, candidates: Sequence[Candidate], present: Group | None, since: float, now: float) -> Group | None:
        """The group to run; None if there is none that may.

        present: the one that runs since `since`; None: none does
        """
        awake = [one for one in candidates if not _holds(self._resting.get(one.group), now)]
        best = [one for one in awake if not self.is_shelved(one.id, now)] or awake
        if not best:
            return None
        top = max(one.priority for one in best)
        first: dict[Group, float] = {}
        for one in best:
            if one.priority == top:
                first[one.group] = min(one.created, first.get(one.group, one.created))
        others = [group for group in first if group != present]
        if present in first and (not others or now - since < self._turn_seconds):
            return present
        return min(others, key=lambda group: (self._ended.get(group, float("-inf")), first[group], group))

    def end(self, group: Group, now: float) -> None:
        """The group runs no more."""
        self._ended[group] = now

    def rest(self, group: Group, now: float) -> float:
        """The group could not be run: let it rest; for how many seconds."""
        before = self._resting.get(group)
        seconds = FIRST_REST_SECONDS if before is None else min(2 * before.seconds, LONGEST_REST_SECONDS)
        self._resting[group] = _Delay(now + seconds, seconds)
        return seconds

    def is_well(self, group: Group) -> None:
        """The group can be run: forget that it could not."""
        self._resting.pop(group, None)

    def shelve(self, sweeps: Iterable[str], now: float) -> None:
        """These sweeps found no worker: let others go first for a while, longer if it was so before."""
        for sweep in sweeps:
            before = self._shelved.get(sweep)
            seconds = FIRST_SHELF_SECONDS if before is None else min(2 * before.seconds, LONGEST_SHELF_SECONDS)
            self._shelved[sweep] = _Delay(now + seconds, seconds)

    def is_shelved(self, sweep: str, now: float) -> bool:
        """Whether others go first, since no worker was found for this sweep."""
        return _holds(self._shelved.get(sweep), now)

    def may_run(self, candidate: Candidate, now: float) -> bool:
        """Whether nothing but other sweeps is in its way, as far as is known."""
        return not (_holds(self._resting.get(candidate.group), now) or self.is_shelved(candidate.id, now))

    def forget(self, sweeps: Iterable[str]) -> None:
        """These sweeps have workers, or need none any more."""
        for sweep in sweeps:
            self._shelved.pop(sweep, None)


def _holds(delay: _Delay | None, now: float) -> bool:
    return delay is not None and delay.until > now
