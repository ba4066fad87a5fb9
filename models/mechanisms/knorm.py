"""Key norms: keep the shortest keys."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from models.kernel import kernel
from models.mechanism import TIE, Trace, mechanism
from models.reference import arrivals, highest
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream
from models.token_memory import BudgetConfig, OnlineMemory, remove


class KnormConfig(BudgetConfig):
    """Keep the keys of smallest L2 norm (Knorm, arXiv 2406.11430, Sec. 3).

    Kept: the score, and eviction of one slot at each token once the budget is full; as the shortest of all keys stay,
    this equals the one-shot form at the end of a prompt. Left out: the layers that the original does not compress.
    """

    name: Literal["knorm"] = "knorm"


@mechanism(KnormConfig)
class Knorm(OnlineMemory[KnormConfig]):
    """Write O(B), read O(B d). The longest key leaves; a slot notes its norm, of 4 bytes.

    Norms are those of the keys as they arrive. Ties: the oldest slot leaves. Most workloads make keys of length 1, of
    which all tie: there this is `recency`. Keys captured from a model have norms.
    """

    compares_tokens: ClassVar[bool] = False
    metadata_bytes: ClassVar[int] = 4

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.norms = np.sqrt(np.einsum("ij,ij->i", stream.keys, stream.keys))

    def update(self, similarities: Similarities, start: int, stop: int) -> None:
        evict_longest(self.norms, start, stop, self.budget, self.slots.tokens)

    @classmethod
    def reference(cls, stream: Stream, config: KnormConfig, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        trace = Trace()
        held: list[int] = []
        for t, phase_ends in arrivals(stream):
            held.append(t)
            if len(held) > config.budget:
                del held[highest([math.hypot(*stream.keys[token]) for token in held], trace, relative=True)]
            trace.count(len(held))
            if phase_ends:
                trace.record(held, stream)
        return trace


@kernel
def evict_longest(norms: Floats, start: int, stop: int, budget: Ints, tokens: Ints) -> None:
    """Offer tokens start..stop-1, with key norms `norms` [L], to C memories `tokens` [C, cap]."""
    for c in range(len(budget)):
        count = min(start, budget[c])
        for t in range(start, stop):
            tokens[c, count] = t
            count += 1
            if count > budget[c]:
                victim, border = 0, norms[tokens[c, 0]] * (1.0 + TIE)
                for slot in range(1, count):
                    if norms[tokens[c, slot]] > border:
                        victim, border = slot, norms[tokens[c, slot]] * (1.0 + TIE)
                remove(victim, count, tokens[c])
                count -= 1
