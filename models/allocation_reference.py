"""Allocation by novelty in float64, one token at a time: the rule as it reads in the paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from models.allocation import LEAST_FREQUENT, LEAST_RECENT, LEAST_USED
from models.mechanism import NEAR_ONE, TIE, Trace
from models.reference import arrivals, cosine, highest, lowest, unit_keys
from models.stream import Floats, Stream


def reference_match(key: Floats, slot_keys: Iterable[Floats], tau: float, trace: Trace) -> int | None:
    """The nearest of the slots, the oldest within a tie, for a unit key [d] that is not novel; else None (Eqs. 1-2)."""
    similarities = [cosine(key, slot_key) for slot_key in slot_keys]
    similarities = [1.0 if similarity > NEAR_ONE else similarity for similarity in similarities]
    novelty = 1.0 - max(similarities, default=-math.inf)
    trace.decide(novelty - tau)
    return None if novelty > tau else highest(similarities, trace, relative=False, tie=0.0)


def reference_allocation(
    stream: Stream,
    *,
    tau: float,
    cap: int | None,
    decay: float = 1.0,
    policy: int,
    keep: Literal["first", "last", "majority"] = "first",
    centroid: bool = False,
    dtype: str,
) -> Trace:
    """What one memory does (arXiv 2607.09889, Eqs. 1-2).

    A slot is the list of tokens that used it: the one that opened it, then those that merged into it.
    """
    keys = unit_keys(stream, dtype)
    trace = Trace(keys=[] if centroid else None)
    slots: list[list[int]] = []
    values: list[int] = []

    def key_of(members: Sequence[int]) -> Floats:
        return centroid_key(keys[list(members)]) if centroid else np.asarray(keys[members[0]])

    def evict(now: int) -> None:
        victim = least_valuable(slots, now, policy, decay, trace)
        del slots[victim], values[victim]

    for t, phase_ends in arrivals(stream):
        value = int(stream.values[t])
        slot = reference_match(keys[t], map(key_of, slots), tau, trace)
        if slot is not None:
            slots[slot].append(t)
            values[slot] = merged(values[slot], [int(stream.values[member]) for member in slots[slot]], keep)
        elif cap != 0:
            if policy != LEAST_USED and len(slots) == cap:
                evict(t)
            slots.append([t])
            values.append(value)
            if cap is not None and len(slots) > cap:
                evict(t)
        trace.count(len(slots))
        if phase_ends:
            trace.tokens.append([members[0] for members in slots])
            trace.values.append(list(values))
            if trace.keys is not None:
                trace.keys.append(np.array([key_of(members) for members in slots]))
    return trace


def centroid_key(members: Floats) -> Floats:
    """Normalised sum of unit keys [m, d]; zero where they cancel."""
    total = np.asarray(members.sum(axis=0))
    length = math.sqrt(float(total @ total))
    return total / length if length > TIE else np.zeros_like(total)


def least_valuable(slots: list[list[int]], now: int, policy: int, decay: float, trace: Trace) -> int:
    """Slot to evict at token `now`."""
    if policy == LEAST_RECENT:
        return min(range(len(slots)), key=lambda slot: slots[slot][-1])
    if policy == LEAST_FREQUENT:
        return min(range(len(slots)), key=lambda slot: (len(slots[slot]), slots[slot][-1]))
    usage = [log_usage([now - member for member in members], decay) for members in slots]
    return lowest(usage, trace, relative=False, tie=0.0)


def log_usage(ages: list[int], decay: float) -> float:
    """Logarithm of a counter that gained 1 at each use, `ages` tokens ago, and shrinks by `decay` at each token."""
    newest = min(ages)
    return newest * math.log(decay) + math.log(math.fsum(decay ** (age - newest) for age in ages))


def merged(held: int, seen: list[int], keep: Literal["first", "last", "majority"]) -> int:
    """Value a slot holds after its members' values `seen`, the newest last."""
    if keep == "first":
        return held
    if keep == "last":
        return seen[-1]
    return seen[-1] if seen.count(seen[-1]) > seen.count(held) else held
