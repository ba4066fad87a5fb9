"""Allocation by novelty: open a slot for a key unlike all stored ones, merge otherwise, evict under a cap.

Shared by the Dirichlet-process cache and the item caches; they differ in which slot a full memory gives up.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from models.item_hits import UNCOUNTED, holder
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

NEW = -1
"""In place of a slot: the token is unlike all that is stored."""

CACHED_COSINES = 1 << 15
"""Cosines that stay in a core's own cache: 256 KiB."""


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
    items  [n]                item of each token at hand, where hits by item are counted; else empty
    hits   [C]                tokens so far whose item was held when they came
    """

    score: Floats
    last: Ints
    tally: Ints
    items: Ints = UNCOUNTED
    hits: Ints = UNCOUNTED


@kernel
def count_hit(c: int, token: int, tokens: Ints, count: int, records: Records) -> None:
    """Note whether memory `c`, whose `count` slots store `tokens`, holds the item of `token`, which comes next."""
    if len(records.items) > 0 and holder(records.items[token], tokens, count, records.items) >= 0:
        records.hits[c] += 1


@kernel
def nearest(cosines: Floats, tokens: Ints, count: int) -> int:
    """Slot whose key is nearest to a key that has these `cosines` with every token; the oldest on a tie.

    tokens [cap] are the tokens whose keys the slots store; `count` is at least 1.
    """
    best, highest = 0, cosines[tokens[0]]
    for slot in range(1, count):
        cosine = cosines[tokens[slot]]
        if cosine > highest:
            best, highest = slot, cosine
    if highest > NEAR_ONE:
        best = 0
        while cosines[tokens[best]] <= NEAR_ONE:
            best += 1
    return best


@kernel
def match(cosines: Floats, tokens: Ints, count: int, tau: float) -> int:
    """Slot, of `count`, that a token with these `cosines` merges into; NEW if it is unlike all of them (Eq. 2)."""
    if count == 0:
        return NEW
    slot = nearest(cosines, tokens, count)
    novelty = 0.0 if cosines[tokens[slot]] > NEAR_ONE else 1.0 - cosines[tokens[slot]]
    return slot if novelty <= tau else NEW


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
def first_use(policy: int, now: int, log_decay: float) -> float:
    """Score of a slot opened at token `now`: with a usage of 1."""
    if policy == LEAST_USED:
        return -now * log_decay
    return used(0.0, policy, now, log_decay)


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
def open_slot(
    slot: int,
    token: int,
    value: int,
    use: float,
    now: int,
    tokens: Ints,
    values: Ints,
    score: Floats,
    last: Ints,
    tally: Ints,
) -> None:
    """Let `slot`, the first that is free, hold `token`, which comes `now`, with `value` and the score `use`."""
    tokens[slot], values[slot], score[slot], last[slot] = token, value, use, now
    for other in range(tally.shape[1]):
        tally[slot, other] = other == value


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
def allocate(
    rows: Floats, first: int, now: int, stream_values: Ints, rule: Rule, slots: Slots, records: Records
) -> None:
    """Feed a block of tokens to C memories whose keys are first occurrences.

    rows [b, n]: the tokens' cosines with every token at hand; first: which of these is the block's first; now: tokens
    that came before the block, which are as many where all are at hand; stream_values [n]: values of those at hand.
    Some rows at a time, so that they stay in cache while one memory after the other reads them.
    """
    step = max(1, CACHED_COSINES // rows.shape[1])
    for top in range(0, len(rows), step):
        for c in range(len(slots.counts)):
            tokens, values, count, cap = slots.tokens[c], slots.values[c], slots.counts[c], rule.cap[c]
            score, last, tally = records.score[c], records.last[c], records.tally[c]
            held, peak = 0, slots.peak[c]
            for r in range(top, min(top + step, len(rows))):
                t, time = first + r, now + r
                count_hit(c, t, tokens, count, records)
                slot = match(rows[r], tokens, count, rule.tau[c])
                if slot != NEW:
                    if rule.keep != FIRST:
                        values[slot] = merged(stream_values[t], values[slot], rule.keep, tally[slot])
                    if cap != UNCAPPED:
                        score[slot] = used(score[slot], rule.policy, time, rule.log_decay[c])
                        last[slot] = time
                elif cap > 0:
                    if count == cap and rule.policy != LEAST_USED:
                        victim = least_valuable(count, rule.policy, score, last)
                        close(victim, count, tokens, values, score, last, tally)
                        count -= 1
                    use = first_use(rule.policy, time, rule.log_decay[c])
                    open_slot(count, t, stream_values[t], use, time, tokens, values, score, last, tally)
                    count += 1
                    if count > cap:
                        victim = least_valuable(count, rule.policy, score, last)
                        close(victim, count, tokens, values, score, last, tally)
                        count -= 1
                held += count
                peak = max(peak, count)
            slots.counts[c], slots.peak[c] = count, peak
            slots.held[c] += held


@kernel
def follow(
    assignment: Ints, start: int, stop: int, stream_values: Ints, keep: int, c: int, slots: Slots, tally: Ints
) -> None:
    """Bring memory `c`, which evicts nothing, from token `start` to `stop`, given the slot each token goes to.

    assignment [L]; tally [cap, classes] as in `Records`.
    """
    values, count = slots.values[c], slots.counts[c]
    for t in range(start, stop):
        slot, value = assignment[t], stream_values[t]
        if slot == count:
            slots.tokens[c, slot], values[slot] = t, value
            for other in range(tally.shape[1]):
                tally[slot, other] = other == value
            count += 1
        elif keep != FIRST:
            values[slot] = merged(value, values[slot], keep, tally[slot])
        slots.held[c] += count
    slots.counts[c] = slots.peak[c] = count
