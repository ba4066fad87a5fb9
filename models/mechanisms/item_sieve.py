"""Item cache with SIEVE eviction."""

from __future__ import annotations

from typing import ClassVar, Literal

from models.allocation import NEW, match
from models.item_cache import ItemCacheConfig
from models.kernel import kernel
from models.mechanism import Slots, mechanism
from models.queue_cache import QueueCache
from models.queues import Queues, count_hit, count_use, enter, leave
from models.stream import Floats, Ints

HAND_BYTES = 4
"""Where the hand stands."""


class ItemSieveConfig(ItemCacheConfig):
    """One slot an item, evicted by a hand that sweeps from the oldest (SIEVE: Zhang et al., NSDI 2024, Alg. 1)."""

    name: Literal["item_sieve"] = "item_sieve"


@mechanism(ItemSieveConfig)
class ItemSieve(QueueCache[ItemSieveConfig]):
    """Write O(B d), read O(B d). Nothing ties. A slot notes whether it was visited, in 1 byte; the hand takes 4 more.

    A hit marks its slot as visited and moves nothing. On a miss the hand goes from older slots to newer, and after the
    newest to the oldest: what it finds marked loses the mark and stays, the first without a mark leaves. There the hand
    waits. It has no ghosts.
    """

    metadata_bytes: ClassVar[int] = 1

    def serve(self, rows: Floats, first: int) -> None:
        sweep(rows, first, self.token_values, self.tau, self.budget, self.slots, self.queues)

    def bytes_fixed(self) -> int:
        """The hand."""
        return HAND_BYTES

    @classmethod
    def lists(cls, config: ItemSieveConfig) -> SieveList:
        return SieveList(config.budget)


class SieveList:
    """The rule in lists of tokens: the queue with its oldest first, and which of it were visited."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.queue: list[int] = []
        self.visited: set[int] = set()
        self.hand = 0

    def held(self) -> list[int]:
        return self.queue

    def ghosts(self) -> list[int]:
        return []

    def hit(self, token: int) -> None:
        self.visited.add(token)

    def miss(self, token: int, ghost: int | None) -> None:
        if len(self.queue) == self.budget:
            while self.queue[self.hand] in self.visited:
                self.visited.remove(self.queue[self.hand])
                self.hand = (self.hand + 1) % len(self.queue)
            del self.queue[self.hand]
            if self.hand == len(self.queue):
                self.hand = 0
        self.queue.append(token)


@kernel
def sweep(
    rows: Floats, first: int, stream_values: Ints, tau: Floats, budget: Ints, slots: Slots, queues: Queues
) -> None:
    """Feed a block of tokens, with cosines `rows` [b, n], to C caches; `queues.own` [C] is where hands stand."""
    for c in range(len(budget)):
        for r in range(len(rows)):
            count_hit(c, first + r, slots, queues)
            slot = match(rows[r], slots.tokens[c], slots.counts[c], tau[c])
            if slot != NEW:
                queues.uses[c, slot] = 1
            elif budget[c] > 0:
                if slots.counts[c] == budget[c]:
                    make_room(c, slots, queues)
                enter(c, first + r, stream_values[first + r], 0, 0, slots, queues)
            count_use(c, slots)


@kernel
def make_room(c: int, slots: Slots, queues: Queues) -> None:
    """Close the slot at which the hand of cache `c` stops."""
    hand = int(queues.own[c])
    while queues.uses[c, hand] == 1:
        queues.uses[c, hand] = 0
        hand = (hand + 1) % slots.counts[c]
    leave(c, hand, slots, queues)
    queues.own[c] = 0 if hand == slots.counts[c] else hand
