"""Allocation by novelty: open a slot for a key unlike all stored ones, merge otherwise, evict under a cap.

Shared by the Dirichlet-process cache and the item caches; they differ in which slot a full memory gives up.
"""

from __future__ import annotations

import math

import numpy as np

from models.kernel import kernel
from models.mechanism import NEAR_ONE, Trace
from models.reference import cosine, first_argmax, lowest_gap, unit_keys
from models.stream import Floats, Ints, Stream

LEAST_USED, LEAST_RECENT, LEAST_FREQUENT = 0, 1, 2
"""Eviction: smallest decayed usage (the newcomer competes, ties to the oldest slot); oldest last use; fewest uses
(ties to the oldest last use). The two item caches make room before the newcomer enters, as caches do."""

KEEP = {"first": 0, "last": 1, "majority": 2}
"""Value a slot holds after a merge: its first, its last, or the one seen most often (the incumbent keeps a tie)."""

UNCAPPED = np.iinfo(np.int64).max


@kernel
def drop_slot(victim: int, count: int, tokens: Ints, values: Ints, score: Floats, last: Ints, tally: Ints) -> None:
    """Remove slot `victim` of one memory, keeping the others in order of opening."""
    for slot in range(victim, count - 1):
        tokens[slot] = tokens[slot + 1]
        values[slot] = values[slot + 1]
        score[slot] = score[slot + 1]
        last[slot] = last[slot + 1]
        if tally.shape[1] > 0:
            tally[slot] = tally[slot + 1]


@kernel
def choose_victim(policy: int, count: int, score: Floats, last: Ints) -> int:
    """Slot to give up among the first `count`."""
    victim = 0
    for slot in range(1, count):
        if score[slot] < score[victim] or (policy == 2 and score[slot] == score[victim] and last[slot] < last[victim]):
            victim = slot
    return victim


@kernel
def used(score: float, policy: int, now: int, log_decay: float) -> float:
    """Score of a slot used at token `now`.

    Usage decayed each token is ranked by log(u decay^-t), which neither under- nor overflows on long streams.
    """
    if policy == 1:
        return float(now)
    if policy == 2:
        return score + 1.0
    gain = -now * log_decay
    high, low = max(score, gain), min(score, gain)
    return high + math.log1p(math.exp(low - high))


@kernel
def merge_value(slot: int, value: int, keep: int, values: Ints, tally: Ints) -> None:
    """Let `value` meet the value held in `slot`."""
    if keep == 1:
        values[slot] = value
    elif keep == 2:
        tally[slot, value] += 1
        if tally[slot, value] > tally[slot, values[slot]]:
            values[slot] = value


@kernel
def allocate(
    rows: Floats,
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
) -> None:
    """Feed a block of tokens, whose cosine rows are `rows` [b, n], to C memories with first-occurrence keys."""
    for c in range(len(counts)):
        count = counts[c]
        for r in range(len(rows)):
            t = first + r
            best, slot = -np.inf, -1
            for i in range(count):
                similarity = rows[r, tokens[c, i]]
                if similarity > best:
                    best, slot = similarity, i
            if best > 1.0 - 1e-9:
                best = 1.0
            if slot >= 0 and not (1.0 - best > tau[c]):
                merge_value(slot, stream_values[t], keep, values[c], tally[c])
                score[c, slot] = used(score[c, slot], policy, t, log_decay[c])
                last[c, slot] = t
            elif cap[c] > 0:
                if policy != 0 and count == cap[c]:
                    drop_slot(
                        choose_victim(policy, count, score[c], last[c]),
                        count, tokens[c], values[c], score[c], last[c], tally[c],
                    )  # fmt: skip
                    count -= 1
                tokens[c, count] = t
                values[c, count] = stream_values[t]
                last[c, count] = t
                score[c, count] = used(-np.inf if policy == 0 else 0.0, policy, t, log_decay[c])
                if keep == 2:
                    tally[c, count] = 0
                    tally[c, count, stream_values[t]] = 1
                count += 1
                if count > cap[c]:
                    drop_slot(
                        choose_victim(policy, count, score[c], last[c]),
                        count, tokens[c], values[c], score[c], last[c], tally[c],
                    )  # fmt: skip
                    count -= 1
            held[c] += count
            peak[c] = max(peak[c], count)
        counts[c] = count


def reference_allocation(
    stream: Stream,
    *,
    tau: float,
    cap: int | None,
    decay: float,
    policy: int,
    keep: str,
    centroid: bool,
    dtype: str,
) -> Trace:
    """One memory, one token at a time, in float64: the rule as it reads in the paper (Eqs. 1-2)."""
    keys = unit_keys(stream, dtype)
    trace = Trace(keys=[] if centroid else None)
    members: list[list[int]] = []
    usage: list[float] = []
    last: list[int] = []
    held: list[int] = []
    ends = {phase.end for phase in stream.phases}

    def key_of(slot: int) -> Floats:
        total = np.sum(keys[members[slot]], axis=0) if centroid else keys[members[slot][0]]
        length = math.sqrt(float(total @ total))
        return total / length if centroid and length > 0 else total

    def evict(candidates: int) -> None:
        scores = {LEAST_USED: usage, LEAST_RECENT: [float(t) for t in last], LEAST_FREQUENT: usage}[policy][:candidates]
        if policy != LEAST_FREQUENT:
            trace.decide(lowest_gap(scores))
        victim = min(range(candidates), key=lambda i: (scores[i], last[i] if policy == LEAST_FREQUENT else i))
        for column in (members, usage, last, held):
            del column[victim]

    for t in range(stream.phases[-1].end):
        value = int(stream.values[t])
        if policy == LEAST_USED:
            usage[:] = [decay * u for u in usage]
        similarities = [cosine(keys[t], key_of(slot)) for slot in range(len(members))]
        similarities = [1.0 if s > NEAR_ONE else s for s in similarities]
        novelty = 1.0 - max(similarities) if similarities else math.inf
        trace.decide(novelty - tau)
        if novelty > tau:
            if policy != LEAST_USED and cap is not None and len(members) == cap > 0:
                evict(cap)
            if cap != 0:
                members.append([t])
                usage.append(1.0)
                last.append(t)
                held.append(value)
            if cap is not None and len(members) > cap:
                evict(len(members))
        else:
            slot = first_argmax(similarities)
            trace.decide(lowest_gap([-s for s in similarities]))
            members[slot].append(t)
            usage[slot] += 1.0
            last[slot] = t
            held[slot] = _merged(held[slot], [int(stream.values[m]) for m in members[slot]], keep)
        trace.count(len(members))
        if t + 1 in ends:
            trace.tokens.append([m[0] for m in members])
            trace.values.append(list(held))
            if trace.keys is not None:
                trace.keys.append(np.array([key_of(slot) for slot in range(len(members))]))
    return trace


def _merged(held: int, seen: list[int], keep: str) -> int:
    """Value a slot holds after its members' values `seen`, the newest last."""
    if keep == "first":
        return held
    if keep == "last":
        return seen[-1]
    return seen[-1] if seen.count(seen[-1]) > seen.count(held) else held
