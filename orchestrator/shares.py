"""Whose turn it is among users whose sweeps share workers: of who has had the least worker time lately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

HALF_LIFE_SECONDS = 600.0
"""How long it takes until worker time counts half."""

FIRST_GUESS_SECONDS = 0.4
"""What a batch is taken to need until one has ended."""

User = str | None
"""A user's name; None: whoever works on this machine, without a service."""


@dataclass(frozen=True)
class _Running:
    user: User
    since: float


class Shares:
    """Worker time of each user, decayed, with what runs counted at once: the order in which users are to be served.

    A user who comes (or comes back) begins level with whoever of those present has had the least: what others used
    while the user was away earns no claim, and what the user had had before is not forgotten.

    Times are seconds on one clock that does not go back.
    """

    def __init__(self, half_life: float = HALF_LIFE_SECONDS) -> None:
        self._half_life = half_life
        self._used: dict[User, float] = {}
        self._at = 0.0
        self._floor = 0.0
        self._present: frozenset[User] = frozenset()
        self._running: dict[int, _Running] = {}
        self._reserved: Counter[User] = Counter()
        self._held: dict[User, float] = {}
        self._held_at: float | None = None
        self._batch = FIRST_GUESS_SECONDS

    def attend(self, users: Iterable[User], now: float) -> None:
        """From now on `users` are those who have something to run."""
        self._decay(now)
        self._raise_floor()
        present = frozenset(users)
        for user in present - self._present:
            self._used[user] = max(self._used.get(user, 0.0), self._floor)
        self._present = present

    def reserve(self, user: User) -> None:
        """A batch of the user's is about to be handed to a worker: until `release` it counts as if it ran."""
        self._reserved[user] += 1

    def release(self) -> None:
        """What was reserved has begun, or will not."""
        self._reserved.clear()

    def begin(self, attempt: int, user: User, now: float) -> None:
        """A batch of the user's was handed to a worker."""
        self._running[attempt] = _Running(user, now)
        self._held_at = None

    def end(self, attempt: int, seconds: float, now: float) -> None:
        """That batch took a worker `seconds`, or is lost after so long. One that is not known changes nothing."""
        batch = self._running.pop(attempt, None)
        if batch is None:
            return
        self._held_at = None
        self._decay(now)
        self._used[batch.user] = self._used.get(batch.user, 0.0) + seconds
        self._batch += 0.2 * (seconds - self._batch)

    def used(self, user: User, now: float) -> float:
        """Seconds of workers' time that count against a user; a batch that runs counts as the usual one at least."""
        self._decay(now)
        if self._held_at != now:
            self._add_up(now)
        return self._used.get(user, 0.0) + self._held.get(user, 0.0) + self._reserved[user] * self._batch

    def _add_up(self, now: float) -> None:
        """What runs, by user: kept until it changes, as there may be thousands of batches."""
        self._held_at = now
        self._held = {}
        for one in self._running.values():
            self._held[one.user] = self._held.get(one.user, 0.0) + max(self._batch, now - one.since)

    def order(self, users: Collection[User], now: float) -> list[User]:
        """`users`, the one to be served first in front; of equals, as they are listed."""
        if len(users) == 1:
            return list(users)
        return sorted(users, key=lambda user: self.used(user, now))

    def _decay(self, now: float) -> None:
        kept = 0.5 ** ((now - self._at) / self._half_life)
        self._at = now
        self._floor *= kept
        for user in self._used:
            self._used[user] *= kept

    def _raise_floor(self) -> None:
        """Note what whoever of those present has had the least has had: nobody who comes later begins below it."""
        had = [self._used.get(user, 0.0) for user in self._present]
        self._floor = max(self._floor, min(had, default=0.0))
