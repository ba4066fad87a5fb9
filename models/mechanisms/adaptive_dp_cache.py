"""Surprise-adaptive Dirichlet-process cache (Method II)."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.allocation import (
    LEAST_USED,
    NEW,
    Records,
    Rule,
    close,
    first_use,
    least_valuable,
    match,
    open_slot,
    used,
)
from models.allocation_memory import AllocationMemory, NoveltyConfig
from models.allocation_reference import least_valuable as reference_victim
from models.allocation_reference import reference_match
from models.config import MOST
from models.kernel import kernel
from models.mechanism import TIE, Slots, Trace, mechanism
from models.reference import arrivals, unit_keys
from models.stream import Floats, Ints, Stream


class AdaptiveDPCacheConfig(NoveltyConfig):
    """Dirichlet-process cache, Method II: the cap follows how often tokens are novel (arXiv 2607.09889, Sec. 3.2).

    T = (1 - eta) T + eta [novel] and M = m0 + beta T; while more than M slots are held, the least-used one leaves.
    """

    name: Literal["adaptive_dp_cache"] = "adaptive_dp_cache"
    eta: float = Field(
        0.1, ge=0.0, le=1.0, description="rate at which the novelty rate T follows the tokens; T = 0 first"
    )
    beta: float = Field(40.0, ge=0.0, le=MOST, description="slots that the cap gains when every token is novel")
    m0: float = Field(8.0, ge=0.0, le=MOST, description="cap when no token is novel; a cap below 1 is 1")
    decay: float = Field(0.99, gt=0.0, le=1.0, description="factor on every slot's usage counter at each token")


@mechanism(AdaptiveDPCacheConfig)
class AdaptiveDPCache(AllocationMemory[AdaptiveDPCacheConfig]):
    """Write O(m d), read O(m d). With beta = 0 it is `dp_cache` with a cap of m0.

    The paper's M is real: at most floor(M) slots stay, and at least 1. At each token T is updated, then M, then slots
    leave, also when the token merged. A newcomer enters with usage 1 and competes; on a tie the oldest slot leaves.
    A slot carries a usage counter of 4 bytes; T, one number a memory, is not counted.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("tau", "similarity", "eta", "beta", "m0", "decay")
    policy: ClassVar[int] = LEAST_USED
    metadata_bytes: ClassVar[int] = 4

    def slot_cap(self, config: AdaptiveDPCacheConfig) -> int:
        """The most that M can be."""
        return adaptive_cap(config.m0, config.beta, 1.0)

    def log_decay(self, config: AdaptiveDPCacheConfig) -> float:
        return math.log(config.decay)

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.eta, self.beta, self.m0 = (
            np.array([getattr(config, name) for config in self.configs]) for name in ("eta", "beta", "m0")
        )
        self.rate = np.zeros(len(self))

    def allocate(
        self, rows: Floats, first: int, now: int, values: Ints, which: slice, slots: Slots, records: Records
    ) -> None:
        caps = (self.eta[which], self.beta[which], self.m0[which], self.rate[which])
        allocate_adaptive(rows, first, now, values, self.rule_of(which), *caps, slots, records)

    @classmethod
    def reference(
        cls, stream: Stream, config: AdaptiveDPCacheConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        keys = unit_keys(stream, dtype)
        trace = Trace()
        slots: list[list[int]] = []  # the tokens that used each slot, the one that opened it first
        rate = 0.0
        for t, phase_ends in arrivals(stream):
            slot = reference_match(keys[t], (keys[members[0]] for members in slots), config.tau, trace)
            if slot is None:
                slots.append([t])
            else:
                slots[slot].append(t)
            rate = (1.0 - config.eta) * rate + config.eta * (slot is None)
            while len(slots) > max(1, math.floor(config.m0 + config.beta * rate + TIE)):
                del slots[reference_victim(slots, t, LEAST_USED, config.decay, trace)]
            trace.count(len(slots))
            if phase_ends:
                trace.record([members[0] for members in slots], stream)
        return trace


@kernel
def adaptive_cap(m0: float, beta: float, rate: float) -> int:
    """Slots allowed at a novelty rate; a real within 1e-9 of an integer is that integer."""
    return max(1, math.floor(m0 + beta * rate + TIE))


@kernel
def allocate_adaptive(
    rows: Floats,
    first: int,
    now: int,
    stream_values: Ints,
    rule: Rule,
    eta: Floats,
    beta: Floats,
    m0: Floats,
    rate: Floats,
    slots: Slots,
    records: Records,
) -> None:
    """Feed a block of tokens, as `allocate` does, to C memories that each have a novelty `rate` [C]."""
    for c in range(len(slots.counts)):
        tokens, values, count = slots.tokens[c], slots.values[c], slots.counts[c]
        score, last, tally = records.score[c], records.last[c], records.tally[c]
        for r in range(len(rows)):
            t, time = first + r, now + r
            slot = match(rows[r], tokens, count, rule.tau[c])
            if slot == NEW:
                use = first_use(rule.policy, time, rule.log_decay[c])
                open_slot(count, t, stream_values[t], use, time, tokens, values, score, last, tally)
                count += 1
            else:
                score[slot] = used(score[slot], rule.policy, time, rule.log_decay[c])
                last[slot] = time
            rate[c] = (1.0 - eta[c]) * rate[c] + eta[c] * (slot == NEW)
            while count > adaptive_cap(m0[c], beta[c], rate[c]):
                close(least_valuable(count, rule.policy, score, last), count, tokens, values, score, last, tally)
                count -= 1
            slots.held[c] += count
            slots.peak[c] = max(slots.peak[c], count)
        slots.counts[c] = count
