"""Item cache with S3-FIFO eviction."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.allocation import NEW, match
from models.item_cache import ItemCacheConfig
from models.kernel import kernel
from models.mechanism import Slots, mechanism
from models.queue_cache import QueueCache
from models.queues import NONE, Queues, count_hit, count_use, enter, forget, front, haunt_within, leave, length, requeue
from models.stream import Floats, Ints, Stream

SMALL, MAIN = 0, 1

MOST_USES = 3
"""Uses are counted in two bits."""

PROVEN = 2
"""Uses after the first with which an item moves on to the main queue."""


class ItemS3FIFOConfig(ItemCacheConfig):
    """One slot an item, in three first-in first-out queues (S3-FIFO: Yang et al., SOSP 2023, Alg. 1)."""

    name: Literal["item_s3_fifo"] = "item_s3_fifo"
    small: float = Field(
        0.1, gt=0.0, lt=1.0, description="share of the budget that fresh items have for sure; rounded down, at least 1"
    )

    @property
    def small_slots(self) -> int:
        """Length from which on the small queue gives way."""
        return max(1, int(self.small * self.budget))


@mechanism(ItemS3FIFOConfig)
class ItemS3FIFO(QueueCache[ItemS3FIFOConfig]):
    """Write O(B d), read O(B d). Nothing ties. As many ghosts are remembered as the main queue has slots.

    Fresh items stand in the small queue. Its front moves on to the main queue if it was used twice since, with its
    uses forgotten, else it leaves as a ghost; an item that comes back from there enters the main queue. The front of
    that goes to its end, with one use less, while it has any. A slot notes its place in 4 bytes, its queue and its uses
    in 1, a ghost its key.

    This is what the paper's authors measured: their libCacheSim has it as S3FIFOv0. Its later form lets fresh items
    enter the main queue too, once the small one is full, until it first evicts; it holds nothing below a budget of 20.
    """

    metadata_bytes: ClassVar[int] = 5

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.small = np.array([config.small_slots for config in self.configs], dtype=np.int64)

    def ghost_capacity(self, config: ItemS3FIFOConfig, length: int) -> int:
        return min(max(config.budget - config.small_slots, 0), length)

    def serve(self, rows: Floats, first: int) -> None:
        promote_lazily(rows, first, self.token_values, self.tau, self.budget, self.small, self.slots, self.queues)

    @classmethod
    def lists(cls, config: ItemS3FIFOConfig) -> S3FIFOLists:
        return S3FIFOLists(config)


class S3FIFOLists:
    """Alg. 1 of the paper in lists of tokens, their tails first."""

    def __init__(self, config: ItemS3FIFOConfig) -> None:
        self.budget = config.budget
        self.least = config.small_slots
        self.s: list[int] = []
        self.m: list[int] = []
        self.g: list[int] = []
        self.freq: dict[int, int] = {}

    def held(self) -> list[int]:
        return self.s + self.m

    def ghosts(self) -> list[int]:
        return self.g

    def hit(self, token: int) -> None:
        self.freq[token] = min(self.freq[token] + 1, 3)

    def miss(self, token: int, ghost: int | None) -> None:
        if ghost is not None:
            self.g.remove(ghost)
        while len(self.held()) == self.budget:
            if len(self.s) >= self.least:
                self.evict_s()
            else:
                self.evict_m()
        (self.s if ghost is None else self.m).append(token)
        self.freq[token] = 0

    def evict_s(self) -> None:
        while self.s:
            tail = self.s.pop(0)
            if self.freq[tail] <= 1:
                self.g = [*self.g, tail][max(0, len(self.g) + 1 - (self.budget - self.least)) :]
                return
            self.m.append(tail)
            self.freq[tail] = 0

    def evict_m(self) -> None:
        while self.freq[self.m[0]] > 0:
            tail = self.m.pop(0)
            self.m.append(tail)
            self.freq[tail] -= 1
        del self.m[0]


@kernel
def promote_lazily(
    rows: Floats,
    first: int,
    stream_values: Ints,
    tau: Floats,
    budget: Ints,
    small: Ints,
    slots: Slots,
    queues: Queues,
) -> None:
    """Feed a block of tokens, with cosines `rows` [b, n], to C caches; small [C]: length of their small queues."""
    for c in range(len(budget)):
        for r in range(len(rows)):
            count_hit(c, first + r, slots, queues)
            slot = match(rows[r], slots.tokens[c], slots.counts[c], tau[c])
            if slot != NEW:
                queues.uses[c, slot] = min(queues.uses[c, slot] + 1, MOST_USES)
            elif budget[c] > 0:
                ghost = match(rows[r], queues.ghosts[c], queues.haunted[c], tau[c])
                if ghost != NEW:
                    forget(c, ghost, queues)
                while slots.counts[c] == budget[c]:
                    if length(c, SMALL, slots, queues) >= small[c]:
                        evict_small(c, budget[c] - small[c], slots, queues)
                    else:
                        evict_main(c, slots, queues)
                queue = SMALL if ghost == NEW else MAIN
                enter(c, first + r, stream_values[first + r], queue, 0, slots, queues)
            count_use(c, slots)


@kernel
def evict_small(c: int, most_ghosts: int, slots: Slots, queues: Queues) -> None:
    """Close the first slot of the small queue that was not used twice; those before it move on to the main queue."""
    slot = front(c, SMALL, slots, queues)
    while slot != NONE and queues.uses[c, slot] >= PROVEN:
        queues.uses[c, slot] = 0
        requeue(c, slot, MAIN, queues)
        slot = front(c, SMALL, slots, queues)
    if slot != NONE:
        haunt_within(c, slots.tokens[c, slot], most_ghosts, queues)
        leave(c, slot, slots, queues)


@kernel
def evict_main(c: int, slots: Slots, queues: Queues) -> None:
    """Close the first slot of the main queue without a use left; those before it go to the end with one use less."""
    slot = front(c, MAIN, slots, queues)
    while queues.uses[c, slot] > 0:
        queues.uses[c, slot] -= 1
        requeue(c, slot, MAIN, queues)
        slot = front(c, MAIN, slots, queues)
    leave(c, slot, slots, queues)
