"""Telling a bad worker from bad trials: a second worker's opinion decides.

A worker on which several different trials fail in a row is set aside, and one of its failures is repeated elsewhere.
If it succeeds there, the worker is at fault and is quarantined; if it fails there too, the trial is, and the worker is
acquitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from enum import Enum, auto

STREAK = 3
"""Different trials that fail in a row before a worker is suspected."""


class Verdict(Enum):
    """What a second opinion says of the suspected worker."""

    QUARANTINE = auto()
    ACQUIT = auto()


class Suspicions:
    """Counts failures in a row by worker, and remembers which trials are evidence against whom."""

    def __init__(self) -> None:
        self._streaks: dict[str, set[int]] = {}
        self._evidence: dict[str, set[int]] = {}
        self._reviewed: set[int] = set()

    @property
    def any_aside(self) -> bool:
        """Whether some worker waits for a second opinion."""
        return bool(self._evidence)

    def aside(self, worker: str) -> bool:
        """Whether `worker` waits for a second opinion."""
        return worker in self._evidence

    def suspect(self, worker: str, failed: Set[int], done: Set[int], *, others: bool) -> bool:
        """Note a batch of `worker`; True if it is set aside now, with `failed` as the evidence.

        `others` says whether some other worker can give a second opinion. A trial is evidence only once.
        """
        streak = self._streaks.setdefault(worker, set())
        if done:
            streak.clear()
            return False
        streak |= failed
        fresh = failed - self._reviewed
        if len(streak) < STREAK or not fresh or not others:
            return False
        self._evidence.setdefault(worker, set()).update(fresh)
        self._reviewed |= fresh
        return True

    def hear(self, witness: str, failed: Iterable[int], done: Iterable[int]) -> dict[str, Verdict]:
        """Verdicts on suspected workers that a batch of another worker, `witness`, brings."""
        verdicts: dict[str, Verdict] = {}
        for worker, evidence in list(self._evidence.items()):
            if worker == witness:
                continue
            if evidence & set(done):
                verdicts[worker] = Verdict.QUARANTINE
            elif evidence & set(failed):
                verdicts[worker] = Verdict.ACQUIT
            else:
                continue
            del self._evidence[worker]
            self._streaks[worker] = set()
        return verdicts

    def forget(self, worker: str) -> None:
        """The worker is gone."""
        self._streaks.pop(worker, None)
        self._evidence.pop(worker, None)
