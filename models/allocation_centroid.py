"""Allocation by novelty with running-centroid keys: a slot's key is the normalised sum of its members' keys."""

from __future__ import annotations

import math

import numpy as np

from models.allocation import Records, Rule, close, least_valuable, merged, nearest, used
from models.kernel import kernel
from models.mechanism import NEAR_ONE, TIE, Slots
from models.stream import Floats, Ints
from models.token_memory import remove


@kernel
def slot_cosines(key: Floats, sums: Floats, lengths: Floats, count: int, out: Floats) -> None:
    """Cosines of one unit key [d] with `count` slots whose sums are the columns of `sums` [d, cap]."""
    for slot in range(count):
        out[slot] = 0.0
    for k in range(len(key)):
        for slot in range(count):
            out[slot] += key[k] * sums[k, slot]
    for slot in range(count):
        out[slot] = out[slot] / lengths[slot] if lengths[slot] > TIE else 0.0


@kernel
def include(key: Floats, slot: int, sums: Floats, lengths: Floats) -> None:
    """Add a unit key [d] to the sum of `slot`. A sum shorter than TIE has no direction: its cosines are 0."""
    square = 0.0
    for k in range(len(key)):
        sums[k, slot] += key[k]
        square += sums[k, slot] ** 2
    lengths[slot] = math.sqrt(square)


@kernel
def drop_sum(slot: int, count: int, sums: Floats, lengths: Floats) -> None:
    """Remove the sum of `slot` of the first `count`, keeping the order of the others."""
    remove(slot, count, lengths)
    for k in range(len(sums)):
        for later in range(slot, count - 1):
            sums[k, later] = sums[k, later + 1]


@kernel
def allocate_centroid(
    keys: Floats,
    first: int,
    now: int,
    stream_values: Ints,
    rule: Rule,
    slots: Slots,
    records: Records,
    sums: Floats,
    lengths: Floats,
) -> None:
    """Feed a block of unit keys [b, d] to C memories, as `allocate` does under LEAST_USED, with centroid keys.

    first: where the block's values begin in `stream_values`; now: tokens that came before it.
    sums [C, d, cap], lengths [C, cap]: each slot's sum of keys and its length.
    """
    every = np.arange(slots.tokens.shape[1])
    cosines = np.empty(slots.tokens.shape[1])
    for c in range(len(slots.counts)):
        tokens, values, count = slots.tokens[c], slots.values[c], slots.counts[c]
        score, last, tally = records.score[c], records.last[c], records.tally[c]
        for r in range(len(keys)):
            t, value = now + r, stream_values[first + r]
            slot, novelty = 0, np.inf
            if count > 0:
                slot_cosines(keys[r], sums[c], lengths[c], count, cosines)
                slot = nearest(cosines, every, count)
                novelty = 0.0 if cosines[slot] > NEAR_ONE else 1.0 - cosines[slot]
            if novelty <= rule.tau[c]:
                values[slot] = merged(value, values[slot], rule.keep, tally[slot])
                score[slot] = used(score[slot], rule.policy, t, rule.log_decay[c])
            else:
                slot = count
                tokens[slot], values[slot] = t, value
                score[slot] = used(-np.inf, rule.policy, t, rule.log_decay[c])
                for k in range(len(keys[r])):
                    sums[c, k, slot] = 0.0
                for other in range(tally.shape[1]):
                    tally[slot, other] = other == value
                count += 1
            last[slot] = t
            include(keys[r], slot, sums[c], lengths[c])
            if count > rule.cap[c]:
                victim = least_valuable(count, rule.policy, score, last)
                drop_sum(victim, count, sums[c], lengths[c])
                close(victim, count, tokens, values, score, last, tally)
                count -= 1
            slots.held[c] += count
            slots.peak[c] = max(slots.peak[c], count)
        slots.counts[c] = count
