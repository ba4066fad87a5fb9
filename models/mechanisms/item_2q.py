"""Item cache with 2Q replacement."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.allocation import NEW, match
from models.item_cache import ItemCacheConfig
from models.kernel import kernel
from models.mechanism import Slots, mechanism
from models.queue_cache import QueueCache
from models.queues import Queues, count_hit, count_use, enter, forget, front, haunt_within, leave, length, requeue
from models.stream import Floats, Ints, Stream

IN, MAIN = 0, 1
"""Queues: A1in and Am of the paper."""


class Item2QConfig(ItemCacheConfig):
    """One slot an item; what comes again after it left is kept (full 2Q: Johnson & Shasha, VLDB 1994)."""

    name: Literal["item_2q"] = "item_2q"
    entry: float = Field(
        0.25, ge=0.0, lt=1.0, description="share of the budget that fresh items have for sure, Kin; rounded down"
    )
    memory: float = Field(
        0.5, ge=0.0, le=100.0, description="ghosts remembered, Kout, as a share of the budget; rounded down"
    )

    @property
    def entry_slots(self) -> int:
        """Kin."""
        return int(self.entry * self.budget)

    @property
    def most_ghosts(self) -> int:
        """Kout."""
        return int(self.memory * self.budget)


@mechanism(Item2QConfig)
class Item2Q(QueueCache[Item2QConfig]):
    """Write O(B d), read O(B d). Nothing ties. Up to `memory` times `budget` ghosts are remembered.

    Fresh items stand in a queue that hits do not change; what leaves it is a ghost for a while, and an item that comes
    back from there enters the main queue, which is LRU. A slot notes its queue and its place, in 1 + 4 bytes, a ghost
    its key. The shares are those that the paper recommends. A ghost that comes back stops being one before room is made
    for it, which the paper leaves open and libCacheSim does too; that holds nothing below a budget of 4.
    """

    metadata_bytes: ClassVar[int] = 5

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.entry = np.array([config.entry_slots for config in self.configs], dtype=np.int64)
        self.most_ghosts = np.array([config.most_ghosts for config in self.configs], dtype=np.int64)

    def ghost_capacity(self, config: Item2QConfig, length: int) -> int:
        return min(config.most_ghosts, length)

    def serve(self, rows: Floats, first: int) -> None:
        shares = (self.tau, self.budget, self.entry, self.most_ghosts)
        admit_twice(rows, first, self.token_values, *shares, self.slots, self.queues)

    @classmethod
    def lists(cls, config: Item2QConfig) -> TwoQLists:
        return TwoQLists(config)


class TwoQLists:
    """The paper's listing in lists of tokens, their tails first."""

    def __init__(self, config: Item2QConfig) -> None:
        self.config = config
        self.a1in: list[int] = []
        self.a1out: list[int] = []
        self.am: list[int] = []

    def held(self) -> list[int]:
        return self.a1in + self.am

    def ghosts(self) -> list[int]:
        return self.a1out

    def hit(self, token: int) -> None:
        if token in self.am:
            self.am.remove(token)
            self.am.append(token)

    def miss(self, token: int, ghost: int | None) -> None:
        if ghost is not None:
            self.a1out.remove(ghost)
        if len(self.held()) == self.config.budget:
            self.reclaim()
        (self.a1in if ghost is None else self.am).append(token)

    def reclaim(self) -> None:
        if len(self.a1in) > self.config.entry_slots:
            self.a1out.append(self.a1in.pop(0))
            if len(self.a1out) > self.config.most_ghosts:
                del self.a1out[0]
        else:
            del self.am[0]


@kernel
def admit_twice(
    rows: Floats,
    first: int,
    stream_values: Ints,
    tau: Floats,
    budget: Ints,
    entry: Ints,
    most_ghosts: Ints,
    slots: Slots,
    queues: Queues,
) -> None:
    """Feed a block of tokens, with cosines `rows` [b, n], to C caches.

    entry, most_ghosts [C]: Kin and Kout.
    """
    for c in range(len(budget)):
        for r in range(len(rows)):
            count_hit(c, first + r, slots, queues)
            slot = match(rows[r], slots.tokens[c], slots.counts[c], tau[c])
            if slot != NEW:
                if queues.queue[c, slot] == MAIN:
                    requeue(c, slot, MAIN, queues)
            elif budget[c] > 0:
                ghost = match(rows[r], queues.ghosts[c], queues.haunted[c], tau[c])
                if ghost != NEW:
                    forget(c, ghost, queues)
                if slots.counts[c] == budget[c]:
                    reclaim(c, entry[c], most_ghosts[c], slots, queues)
                queue = IN if ghost == NEW else MAIN
                enter(c, first + r, stream_values[first + r], queue, 0, slots, queues)
            count_use(c, slots)


@kernel
def reclaim(c: int, entry: int, most_ghosts: int, slots: Slots, queues: Queues) -> None:
    """Close a slot of cache `c`, which is full: of fresh items if these have more than `entry`, and leave a ghost."""
    if length(c, IN, slots, queues) > entry:
        slot = front(c, IN, slots, queues)
        haunt_within(c, slots.tokens[c, slot], most_ghosts, queues)
    else:
        slot = front(c, MAIN, slots, queues)
    leave(c, slot, slots, queues)
