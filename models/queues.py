"""Slots in queues, and ghosts: the steps that the rules of item caches with several queues are made of.

Each step takes the number `c` of a cache, and what all caches of a group hold. A queue has few slots beside the
products that find a token's slot, so a front is looked for, not kept: O(B).
"""

from __future__ import annotations

from typing import NamedTuple

from models.item_hits import holder
from models.kernel import kernel
from models.mechanism import Slots
from models.stream import Floats, Ints
from models.token_memory import remove

NONE = -1
"""In place of a slot: the queue is empty."""


class Queues(NamedTuple):
    """What C caches note beside their slots.

    queue   [C, cap]   queue that a slot stands in
    place   [C, cap]   joins counted when the slot joined the end of its queue: the lowest of a queue is its front
    uses    [C, cap]   uses of a slot, where the rule counts them
    ghosts  [C, room]  tokens whose keys are remembered though their slots have left, in order of leaving
    marks   [C, room]  what is noted of each ghost
    haunted [C]        ghosts remembered; rows are valid up to here
    most    [C]        most ghosts ever remembered
    joins   [C]        joins so far
    own     [C]        the one number that a rule keeps for itself
    items   [L]        item of each token
    hits    [C]        tokens so far whose item was held when they came
    """

    queue: Ints
    place: Ints
    uses: Ints
    ghosts: Ints
    marks: Ints
    haunted: Ints
    most: Ints
    joins: Ints
    own: Floats
    items: Ints
    hits: Ints


@kernel
def requeue(c: int, slot: int, queue: int, queues: Queues) -> None:
    """Move a slot to the end of `queue`."""
    queues.queue[c, slot], queues.place[c, slot] = queue, queues.joins[c]
    queues.joins[c] += 1


@kernel
def enter(c: int, token: int, value: int, queue: int, uses: int, slots: Slots, queues: Queues) -> None:
    """Open a slot for `token` at the end of `queue`."""
    slot = slots.counts[c]
    slots.tokens[c, slot], slots.values[c, slot], queues.uses[c, slot] = token, value, uses
    requeue(c, slot, queue, queues)
    slots.counts[c] += 1


@kernel
def leave(c: int, slot: int, slots: Slots, queues: Queues) -> None:
    """Close a slot, keeping the others in order of opening."""
    for column in (slots.tokens[c], slots.values[c], queues.queue[c], queues.place[c], queues.uses[c]):
        remove(slot, slots.counts[c], column)
    slots.counts[c] -= 1


@kernel
def front(c: int, queue: int, slots: Slots, queues: Queues) -> int:
    """Slot that has stood in `queue` longest; NONE if it is empty."""
    first = NONE
    for slot in range(slots.counts[c]):
        if queues.queue[c, slot] == queue and (first == NONE or queues.place[c, slot] < queues.place[c, first]):
            first = slot
    return first


@kernel
def length(c: int, queue: int, slots: Slots, queues: Queues) -> int:
    """Slots in `queue`."""
    count = 0
    for slot in range(slots.counts[c]):
        count += queues.queue[c, slot] == queue
    return count


@kernel
def haunt(c: int, token: int, mark: int, queues: Queues) -> None:
    """Remember the key of `token` as the newest ghost."""
    ghost = queues.haunted[c]
    queues.ghosts[c, ghost], queues.marks[c, ghost] = token, mark
    queues.haunted[c] += 1
    queues.most[c] = max(queues.most[c], queues.haunted[c])


@kernel
def forget(c: int, ghost: int, queues: Queues) -> None:
    """Drop a ghost, keeping the others in order of leaving."""
    remove(ghost, queues.haunted[c], queues.ghosts[c])
    remove(ghost, queues.haunted[c], queues.marks[c])
    queues.haunted[c] -= 1


@kernel
def haunt_within(c: int, token: int, room: int, queues: Queues) -> None:
    """Remember the key of `token` as the newest of `room` ghosts at most: the oldest is dropped for it."""
    if room > 0:
        if queues.haunted[c] == room:
            forget(c, 0, queues)
        haunt(c, token, 0, queues)


@kernel
def count_use(c: int, slots: Slots) -> None:
    """Note the slots in use after a token."""
    slots.held[c] += slots.counts[c]
    slots.peak[c] = max(slots.peak[c], slots.counts[c])


@kernel
def count_hit(c: int, token: int, slots: Slots, queues: Queues) -> None:
    """Note whether the item of `token`, which comes next, is held."""
    if holder(queues.items[token], slots.tokens[c], slots.counts[c], queues.items) >= 0:
        queues.hits[c] += 1
