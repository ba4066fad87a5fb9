"""Item cache with adaptive replacement."""

from __future__ import annotations

from typing import ClassVar, Literal

from models.allocation import NEW, match
from models.item_cache import ItemCacheConfig
from models.kernel import kernel
from models.mechanism import Slots, mechanism
from models.queue_cache import QueueCache
from models.queues import Queues, count_hit, count_use, enter, forget, front, haunt, leave, length, requeue
from models.stream import Floats, Ints

ONCE, TWICE = 0, 1
"""Queues of items used once and used again: T1 and T2 of the paper; ghosts of the two are its B1 and B2."""


class ItemARCConfig(ItemCacheConfig):
    """One slot an item, recency and frequency in an adaptive balance (ARC: Megiddo & Modha, FAST 2003, Fig. 4)."""

    name: Literal["item_arc"] = "item_arc"


@mechanism(ItemARCConfig)
class ItemARC(QueueCache[ItemARCConfig]):
    """Write O(B d), read O(B d). Nothing ties. Up to `budget` ghosts are remembered.

    Items used once and items used again stand in a queue each; a miss on a ghost of one lets that queue have more of
    the budget. A slot notes its queue and its last use, in 1 + 4 bytes, a ghost its key and its queue. All of the
    original is kept; its target p is a real number, as there.
    """

    metadata_bytes: ClassVar[int] = 5
    ghost_metadata_bytes: ClassVar[int] = 1

    def ghost_capacity(self, config: ItemARCConfig, length: int) -> int:
        return min(config.budget, length)

    def serve(self, rows: Floats, first: int) -> None:
        adapt(rows, first, self.token_values, self.tau, self.budget, self.slots, self.queues)

    @classmethod
    def lists(cls, config: ItemARCConfig) -> ARCLists:
        return ARCLists(config.budget)


class ARCLists:
    """Fig. 4 of the paper in lists of tokens, least recently used first; ghosts with the list that they left."""

    def __init__(self, budget: int) -> None:
        self.c = budget
        self.t1: list[int] = []
        self.t2: list[int] = []
        self.left: dict[int, int] = {}
        self.p = 0.0

    def held(self) -> list[int]:
        return self.t1 + self.t2

    def ghosts(self) -> list[int]:
        return list(self.left)

    def b(self, number: int) -> list[int]:
        return [token for token, queue in self.left.items() if queue == number]

    def hit(self, token: int) -> None:
        (self.t1 if token in self.t1 else self.t2).remove(token)
        self.t2.append(token)

    def miss(self, token: int, ghost: int | None) -> None:
        b1, b2 = self.b(1), self.b(2)
        if ghost is None:
            if len(self.t1) + len(b1) == self.c:
                if len(self.t1) < self.c:
                    del self.left[b1[0]]
                    self.replace(in_b2=False)
                else:
                    del self.t1[0]
            elif len(self.held()) + len(self.left) >= self.c:
                if len(self.held()) + len(self.left) == 2 * self.c:
                    del self.left[b2[0]]
                self.replace(in_b2=False)
            self.t1.append(token)
            return
        if ghost in b1:
            self.p = min(self.p + max(len(b2) / len(b1), 1.0), self.c)
        else:
            self.p = max(self.p - max(len(b1) / len(b2), 1.0), 0.0)
        del self.left[ghost]
        self.replace(in_b2=ghost in b2)
        self.t2.append(token)

    def replace(self, *, in_b2: bool) -> None:
        if self.t1 and (len(self.t1) > self.p or (in_b2 and len(self.t1) == self.p)):
            self.left[self.t1.pop(0)] = 1
        else:
            self.left[self.t2.pop(0)] = 2


@kernel
def adapt(
    rows: Floats, first: int, stream_values: Ints, tau: Floats, budget: Ints, slots: Slots, queues: Queues
) -> None:
    """Feed a block of tokens, with cosines `rows` [b, n], to C caches; `queues.own` [C] are their targets p."""
    for c in range(len(budget)):
        for r in range(len(rows)):
            count_hit(c, first + r, slots, queues)
            slot = match(rows[r], slots.tokens[c], slots.counts[c], tau[c])
            if slot != NEW:
                requeue(c, slot, TWICE, queues)
            elif budget[c] > 0:
                ghost = match(rows[r], queues.ghosts[c], queues.haunted[c], tau[c])
                if ghost != NEW:
                    recall(c, ghost, budget[c], slots, queues)
                else:
                    make_room(c, budget[c], slots, queues)
                queue = ONCE if ghost == NEW else TWICE
                enter(c, first + r, stream_values[first + r], queue, 0, slots, queues)
            count_use(c, slots)


@kernel
def recall(c: int, ghost: int, budget: int, slots: Slots, queues: Queues) -> None:
    """Cases II and III of the paper: shift the target of cache `c` to the queue that `ghost` left, and make room."""
    once, twice = ghosts_of(c, ONCE, queues), ghosts_of(c, TWICE, queues)
    left = queues.marks[c, ghost]
    if left == ONCE:
        queues.own[c] = min(queues.own[c] + max(twice / once, 1.0), float(budget))
    else:
        queues.own[c] = max(queues.own[c] - max(once / twice, 1.0), 0.0)
    forget(c, ghost, queues)
    replace(c, left == TWICE, slots, queues)


@kernel
def make_room(c: int, budget: int, slots: Slots, queues: Queues) -> None:
    """Case IV of the paper: an item of which nothing is remembered."""
    once = length(c, ONCE, slots, queues)
    everything = slots.counts[c] + queues.haunted[c]
    if once == budget:
        leave(c, front(c, ONCE, slots, queues), slots, queues)
    elif once + ghosts_of(c, ONCE, queues) == budget:
        forget(c, oldest_ghost(c, ONCE, queues), queues)
        replace(c, False, slots, queues)
    elif everything >= budget:
        if everything == 2 * budget:
            forget(c, oldest_ghost(c, TWICE, queues), queues)
        replace(c, False, slots, queues)


@kernel
def replace(c: int, from_twice: bool, slots: Slots, queues: Queues) -> None:
    """Turn the front of one queue of cache `c` into a ghost: of the queue that exceeds its share of the budget."""
    once, target = length(c, ONCE, slots, queues), queues.own[c]
    queue = ONCE if once > 0 and (once > target or (from_twice and once == target)) else TWICE
    slot = front(c, queue, slots, queues)
    haunt(c, slots.tokens[c, slot], queue, queues)
    leave(c, slot, slots, queues)


@kernel
def ghosts_of(c: int, queue: int, queues: Queues) -> int:
    """Ghosts that left `queue`."""
    count = 0
    for ghost in range(queues.haunted[c]):
        count += queues.marks[c, ghost] == queue
    return count


@kernel
def oldest_ghost(c: int, queue: int, queues: Queues) -> int:
    """The first ghost that left `queue`, of which there is one."""
    ghost = 0
    while queues.marks[c, ghost] != queue:
        ghost += 1
    return ghost
