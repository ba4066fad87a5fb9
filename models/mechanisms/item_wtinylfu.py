"""Item cache with W-TinyLFU admission."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.allocation import NEW, match
from models.item_cache import ItemCacheConfig
from models.kernel import kernel
from models.mechanism import Slots, mechanism
from models.queue_cache import QueueCache
from models.queues import NONE, Queues, count_hit, count_use, enter, forget, front, haunt, leave, length, requeue
from models.stream import Floats, Ints, Stream

WINDOW, PROBATION, PROTECTED = 0, 1, 2

MOST_USES = 15
"""Uses are counted in four bits."""

PROTECTED_SHARE = 0.8
"""Share of the main cache that items used again in it may have."""


class ItemWTinyLFUConfig(ItemCacheConfig):
    """One slot an item; what leaves a window is kept if it was used more (W-TinyLFU: Einziger et al., ACM TOS 2017).

    arXiv 1512.00727. Kept: an LRU window, a segmented LRU as main cache, admission of the window's oldest if it was
    used more often than what it would replace, counts of four bits that are halved after a sample of tokens. Replaced:
    the sketch, which hashes identities. Here an item has none but its key, so each item that was counted is remembered
    by its key, and counts are exact. Left out: the doorkeeper, which saves bits of a sketch, and a window that adapts.
    """

    name: Literal["item_wtinylfu"] = "item_wtinylfu"
    window: float = Field(
        0.01, ge=0.0, le=1.0, description="share of the budget that fresh items have; rounded down, at least 1"
    )
    sample: int = Field(
        10, ge=1, le=1000, description="tokens after which counts are halved, as a multiple of the budget"
    )

    @property
    def window_slots(self) -> int:
        """Most slots of the window."""
        return max(1, int(self.window * self.budget))

    @property
    def protected_slots(self) -> int:
        """Most slots of the main cache's protected segment."""
        return int(PROTECTED_SHARE * max(self.budget - self.window_slots, 0))


@mechanism(ItemWTinyLFUConfig)
class ItemWTinyLFU(QueueCache[ItemWTinyLFUConfig]):
    """Write O((B + G) d), read O(B d), with G ghosts: items counted but not held, fewer than `sample` times `budget`.

    Every token counts as a use. Equal counts keep what is held. A slot notes its last use in 4 bytes, its queue and its
    uses in 1, a ghost its key and, in 1, its uses: with noisy keys a sketch costs that much. An item whose count is
    halved to nothing is forgotten.

    Shares of 1% and 80%, 4 bits and a sample of ten times the budget are those of Caffeine, by an author of the paper.
    libCacheSim's WTinyLFU does not count uses within the window, counts what leaves it once more, fills the main cache
    only when all is full, and with a budget below 100 has no window and holds nothing: hits differ.
    """

    metadata_bytes: ClassVar[int] = 5
    ghost_metadata_bytes: ClassVar[int] = 1

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.window = np.array([config.window_slots for config in self.configs], dtype=np.int64)
        self.protected = np.array([config.protected_slots for config in self.configs], dtype=np.int64)

    def ghost_capacity(self, config: ItemWTinyLFUConfig, length: int) -> int:
        return min(config.sample * config.budget, length)

    def serve(self, rows: Floats, first: int) -> None:
        shares = (self.tau, self.budget, self.window, self.protected, self.config.sample)
        admit_frequent(rows, first, self.token_values, *shares, self.slots, self.queues)

    @classmethod
    def lists(cls, config: ItemWTinyLFUConfig) -> WTinyLFULists:
        return WTinyLFULists(config)


class WTinyLFULists:
    """The rule in lists of tokens, least recently used first, and a count for each item that is remembered."""

    def __init__(self, config: ItemWTinyLFUConfig) -> None:
        self.config = config
        self.window: list[int] = []
        self.probation: list[int] = []
        self.protected: list[int] = []
        self.uses: dict[int, int] = {}
        self.left: list[int] = []
        self.counted = 0

    def held(self) -> list[int]:
        return self.window + self.probation + self.protected

    def ghosts(self) -> list[int]:
        return self.left

    def use(self, token: int, uses: int) -> None:
        self.uses[token] = min(uses, 15)
        self.counted += 1
        if self.counted == self.config.sample * self.config.budget:
            self.counted //= 2
            self.uses = {other: count // 2 for other, count in self.uses.items()}
            self.left = [other for other in self.left if self.uses[other] > 0]

    def hit(self, token: int) -> None:
        self.use(token, self.uses[token] + 1)
        if token in self.window:
            self.window.remove(token)
            self.window.append(token)
            return
        (self.probation if token in self.probation else self.protected).remove(token)
        self.protected.append(token)
        if len(self.protected) > self.config.protected_slots:
            self.probation.append(self.protected.pop(0))

    def miss(self, token: int, ghost: int | None) -> None:
        uses = 1
        if ghost is not None:
            self.left.remove(ghost)
            uses += self.uses.pop(ghost)
        self.window.append(token)
        self.use(token, uses)
        if len(self.window) > self.config.window_slots:
            self.admit(self.window.pop(0))

    def admit(self, candidate: int) -> None:
        main = self.probation + self.protected
        if len(main) < self.config.budget - self.config.window_slots:
            self.probation.append(candidate)
        elif main and self.uses[candidate] > self.uses[main[0]]:
            (self.probation or self.protected).pop(0)
            self.probation.append(candidate)
            self.remember(main[0])
        else:
            self.remember(candidate)

    def remember(self, token: int) -> None:
        if self.uses[token] > 0:
            self.left.append(token)


@kernel
def admit_frequent(
    rows: Floats,
    first: int,
    stream_values: Ints,
    tau: Floats,
    budget: Ints,
    window: Ints,
    protected: Ints,
    sample: int,
    slots: Slots,
    queues: Queues,
) -> None:
    """Feed a block of tokens, with cosines `rows` [b, n], to C caches; `queues.own` [C] counts the sample.

    window, protected [C]: most slots of the window and of the protected segment.
    """
    for c in range(len(budget)):
        for r in range(len(rows)):
            count_hit(c, first + r, slots, queues)
            slot = match(rows[r], slots.tokens[c], slots.counts[c], tau[c])
            if slot != NEW:
                queues.uses[c, slot] = min(queues.uses[c, slot] + 1, MOST_USES)
                sample_use(c, sample * budget[c], slots, queues)
                touch(c, slot, protected[c], slots, queues)
            elif budget[c] > 0:
                uses = 1
                ghost = match(rows[r], queues.ghosts[c], queues.haunted[c], tau[c])
                if ghost != NEW:
                    uses = min(queues.marks[c, ghost] + 1, MOST_USES)
                    forget(c, ghost, queues)
                enter(c, first + r, stream_values[first + r], WINDOW, uses, slots, queues)
                sample_use(c, sample * budget[c], slots, queues)
                if length(c, WINDOW, slots, queues) > window[c]:
                    admit(c, budget[c] - window[c], slots, queues)
            count_use(c, slots)


@kernel
def sample_use(c: int, sample: int, slots: Slots, queues: Queues) -> None:
    """Count a token; after a sample of them halve all counts, and forget ghosts of which nothing is left."""
    queues.own[c] += 1.0
    if queues.own[c] < sample:
        return
    queues.own[c] = sample // 2
    for slot in range(slots.counts[c]):
        queues.uses[c, slot] //= 2
    kept = 0
    for ghost in range(queues.haunted[c]):
        if queues.marks[c, ghost] > 1:
            queues.ghosts[c, kept], queues.marks[c, kept] = queues.ghosts[c, ghost], queues.marks[c, ghost] // 2
            kept += 1
    queues.haunted[c] = kept


@kernel
def touch(c: int, slot: int, protected: int, slots: Slots, queues: Queues) -> None:
    """Let a slot that was hit be the most recent of its queue; of probation it moves on to the protected segment."""
    if queues.queue[c, slot] == WINDOW:
        requeue(c, slot, WINDOW, queues)
        return
    requeue(c, slot, PROTECTED, queues)
    if length(c, PROTECTED, slots, queues) > protected:
        requeue(c, front(c, PROTECTED, slots, queues), PROBATION, queues)


@kernel
def admit(c: int, main: int, slots: Slots, queues: Queues) -> None:
    """Let the window's oldest into the main cache, of `main` slots, if there is room or if it was used more often."""
    candidate = front(c, WINDOW, slots, queues)
    if slots.counts[c] - length(c, WINDOW, slots, queues) < main:
        requeue(c, candidate, PROBATION, queues)
        return
    victim = front(c, PROBATION, slots, queues)
    if victim == NONE:
        victim = front(c, PROTECTED, slots, queues)
    if victim != NONE and queues.uses[c, candidate] > queues.uses[c, victim]:
        requeue(c, candidate, PROBATION, queues)
    else:
        victim = candidate
    if queues.uses[c, victim] > 0:
        haunt(c, slots.tokens[c, victim], queues.uses[c, victim], queues)
    leave(c, victim, slots, queues)
