"""Allocation by novelty: open a slot for a key unlike all stored ones, merge otherwise, evict under a cap.

Shared by the Dirichlet-process cache and the item caches; they differ in which slot a full memory gives up.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from models.kernel import kernel
from models.mechanism import NEAR_ONE, Slots
from models.stream import Floats, Ints
from models.token_memory import remove

LEAST_USED, LEAST_RECENT, LEAST_FREQUENT = 0, 1, 2
"""Eviction: smallest decayed usage (the newcomer competes, ties to the oldest slot); oldest last use; fewest uses
(ties to the oldest last use). The two item caches make room before the newcomer enters, as caches do."""

FIRST, LAST, MAJORITY = 0, 1, 2
"""Value a slot holds after a merge: its first, its last, or the one seen most often (the incumbent keeps a tie)."""

UNCAPPED = np.iinfo(np.int64).max


class Rule(NamedTuple):
    """What C memories of one group follow.

    tau        [C]  novelty threshold: a slot opens when 1 - max cos(key, slot) > tau
    cap        [C]  most slots, UNCAPPED for no limit
    log_decay  [C]  logarithm of the factor on every usage counter at each token (LEAST_USED only)
    policy, keep    one of the constants above
    """

    tau: Floats
    cap: Ints
    log_decay: Floats
    policy: int
    keep: int


class Records(NamedTuple):
    """What is noted of each slot of C memories.

    score  [C, cap]           usage: log(u decay^-t), time of last use or number of uses, by policy
    last   [C, cap]           token that used the slot last
    tally  [C, cap, classes]  how often each value was seen (MAJORITY; otherwise no classes wide)
    """

    score: Floats
    last: Ints
    tally: Ints


@kernel
def nearest(cosines: Floats, tokens: Ints, count: int) -> int:
    """Slot whose key is nearest to a key that has these `cosines` with every token; the oldest on a tie.

    tokens [cap] are the tokens whose keys the slots store; `count` is at least 1.
    """
    best = 0
    for slot in range(1, count):
        if cosines[tokens[slot]] > cosines[tokens[best]]:
            best = slot
    if cosines[tokens[best]] > NEAR_ONE:
        best = 0
        while cosines[tokens[best]] <= NEAR_ONE:
            best += 1
    return best


@kernel
def used(score: float, policy: int, now: int, log_decay: float) -> float:
    """Score of a slot used at token `now`.

    Usage decayed each token is ranked by log(u decay^-t), which neither under- nor overflows on long streams.
    """
    if policy == LEAST_RECENT:
        return float(now)
    if policy == LEAST_FREQUENT:
        return score + 1.0
    gain = -now * log_decay
    high, low = max(score, gain), min(score, gain)
    return high + math.log1p(math.exp(low - high))


@kernel
def merged(value: int, held: int, keep: int, tally: Ints) -> int:
    """Value of a slot that held `held` and meets `value`; `tally` [classes] counts what it met."""
    if keep == LAST:
        return value
    if keep == MAJORITY:
        tally[value] += 1
        if tally[value] > tally[held]:
            return value
    return held


@kernel
def least_valuable(count: int, policy: int, score: Floats, last: Ints) -> int:
    """Which of the first `count` slots to give up."""
    victim = 0
    for slot in range(1, count):
        tied = policy == LEAST_FREQUENT and score[slot] == score[victim]
        if score[slot] < score[victim] or (tied and last[slot] < last[victim]):
            victim = slot
    return victim


@kernel
def close(slot: int, count: int, tokens: Ints, values: Ints, score: Floats, last: Ints, tally: Ints) -> None:
    """Remove `slot` of the first `count`, keeping the others in order of opening."""
    remove(slot, count, tokens)
    remove(slot, count, values)
    remove(slot, count, score)
    remove(slot, count, last)
    for later in range(slot, count - 1):
        for value in range(tally.shape[1]):
            tally[later, value] = tally[later + 1, value]


@kernel
def allocate(rows: Floats, first: int, stream_values: Ints, rule: Rule, slots: Slots, records: Records) -> None:
    """Feed a block of tokens to C memories whose keys are first occurrences.

    rows [b, n]: the tokens' cosines with every token so far; first: the block's first token; stream_values [L].
    """
    for c in range(len(slots.counts)):
        tokens, values, count, cap = slots.tokens[c], slots.values[c], slots.counts[c], rule.cap[c]
        score, last, tally = records.score[c], records.last[c], records.tally[c]
        for r in range(len(rows)):
            t = first + r
            slot, novelty = 0, np.inf
            if count > 0:
                slot = nearest(rows[r], tokens, count)
                similarity = rows[r, tokens[slot]]
                novelty = 0.0 if similarity > NEAR_ONE else 1.0 - similarity
            if novelty <= rule.tau[c]:
                values[slot] = merged(stream_values[t], values[slot], rule.keep, tally[slot])
                score[slot] = used(score[slot], rule.policy, t, rule.log_decay[c])
                last[slot] = t
            elif cap > 0:
                if count == cap and rule.policy != LEAST_USED:
                    close(least_valuable(count, rule.policy, score, last), count, tokens, values, score, last, tally)
                    count -= 1
                tokens[count], values[count], last[count] = t, stream_values[t], t
                score[count] = used(-np.inf if rule.policy == LEAST_USED else 0.0, rule.policy, t, rule.log_decay[c])
                for value in range(tally.shape[1]):
                    tally[count, value] = value == stream_values[t]
                count += 1
                if count > cap:
                    close(least_valuable(count, rule.policy, score, last), count, tokens, values, score, last, tally)
                    count -= 1
            slots.held[c] += count
            slots.peak[c] = max(slots.peak[c], count)
        slots.counts[c] = count
