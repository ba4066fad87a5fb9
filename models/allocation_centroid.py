"""Allocation by novelty with running-centroid keys: a slot's key is the normalised sum of its members' keys."""

from __future__ import annotations

import math

import numpy as np

from models.allocation import choose_victim, drop_slot, merge_value, used
from models.kernel import kernel
from models.stream import Floats, Ints


@kernel
def slot_cosines(key: Floats, sums: Floats, lengths: Floats, count: int, out: Floats) -> None:
    """Cosines of one unit key [d] with `count` slots whose sums are the columns of `sums` [d, cap]."""
    for slot in range(count):
        out[slot] = 0.0
    for k in range(len(key)):
        for slot in range(count):
            out[slot] += key[k] * sums[k, slot]
    for slot in range(count):
        out[slot] = out[slot] / lengths[slot] if lengths[slot] > 0 else 0.0


@kernel
def drop_sum(victim: int, count: int, sums: Floats, lengths: Floats) -> None:
    """Remove the sum of slot `victim`, keeping the order of the others."""
    for slot in range(victim, count - 1):
        lengths[slot] = lengths[slot + 1]
        sums[:, slot] = sums[:, slot + 1]


@kernel
def allocate_centroid(
    keys: Floats,
    first: int,
    stream_values: Ints,
    tau: Floats,
    cap: Ints,
    log_decay: Floats,
    policy: int,
    keep: int,
    tokens: Ints,
    values: Ints,
    counts: Ints,
    held: Ints,
    peak: Ints,
    score: Floats,
    last: Ints,
    tally: Ints,
    sums: Floats,
    lengths: Floats,
) -> None:
    """Feed a block of unit keys [b, d] to C memories, as `allocate` does, with centroid keys `sums` [C, d, cap]."""
    cosines = np.empty(tokens.shape[1])
    for c in range(len(counts)):
        count = counts[c]
        for r in range(len(keys)):
            t = first + r
            slot_cosines(keys[r], sums[c], lengths[c], count, cosines)
            best, slot = -np.inf, -1
            for i in range(count):
                similarity = 1.0 if cosines[i] > 1.0 - 1e-9 else cosines[i]
                if similarity > best:
                    best, slot = similarity, i
            if slot >= 0 and not (1.0 - best > tau[c]):
                merge_value(slot, stream_values[t], keep, values[c], tally[c])
                score[c, slot] = used(score[c, slot], policy, t, log_decay[c])
                last[c, slot] = t
            else:
                slot = count
                tokens[c, slot] = t
                values[c, slot] = stream_values[t]
                last[c, slot] = t
                score[c, slot] = used(-np.inf, policy, t, log_decay[c])
                sums[c, :, slot] = 0.0
                if keep == 2:
                    tally[c, slot] = 0
                    tally[c, slot, stream_values[t]] = 1
                count += 1
            sums[c, :, slot] += keys[r]
            square = 0.0
            for k in range(len(keys[r])):
                square += sums[c, k, slot] ** 2
            lengths[c, slot] = math.sqrt(square)
            if count > cap[c]:
                victim = choose_victim(policy, count, score[c], last[c])
                drop_sum(victim, count, sums[c], lengths[c])
                drop_slot(victim, count, tokens[c], values[c], score[c], last[c], tally[c])
                count -= 1
            held[c] += count
            peak[c] = max(peak[c], count)
        counts[c] = count
