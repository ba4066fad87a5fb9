"""KeyDiff: evict the key most like the mean of the keys."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from models.kernel import kernel
from models.mechanism import TIE, Trace, mechanism
from models.reference import arrivals, cosine, highest, unit_keys
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream
from models.token_memory import BudgetConfig, OnlineMemory, remove


class KeyDiffConfig(BudgetConfig):
    """Evict the key most similar to the mean direction of the keys held (KeyDiff, arXiv 2504.15364, Sec. 3).

    Kept: the anchor, which is the mean of normalised keys, and the cosine with it as the score. The original evicts
    after each block of a prompt and each decoded token; here a block is one token. Left out: nothing else.
    """

    name: Literal["keydiff"] = "keydiff"


@mechanism(KeyDiffConfig)
class KeyDiff(OnlineMemory[KeyDiffConfig]):
    """Write O(B d), read O(B d). Ties: the oldest slot leaves.

    The newcomer belongs to the mean and competes. A cosine with the mean is the mean cosine with all keys held, over
    the length of the mean, which ranks nothing: it is left out, so that keys that cancel tie. Only their sum is kept.
    """

    compares_tokens: ClassVar[bool] = False

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.sums = np.zeros((len(self), stream.dim))

    def update(self, similarities: Similarities, start: int, stop: int) -> None:
        evict_usual(similarities.keys, start, stop, self.budget, self.slots.tokens, self.sums)

    @classmethod
    def reference(
        cls, stream: Stream, config: KeyDiffConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        keys = unit_keys(stream, dtype)
        trace = Trace()
        held: list[int] = []
        for t, phase_ends in arrivals(stream):
            held.append(t)
            if len(held) > config.budget:
                anchor = keys[held].mean(axis=0)
                del held[highest([cosine(keys[token], anchor) for token in held], trace, relative=False)]
            trace.count(len(held))
            if phase_ends:
                trace.record(held, stream)
        return trace


@kernel
def evict_usual(keys: Floats, start: int, stop: int, budget: Ints, tokens: Ints, sums: Floats) -> None:
    """Offer tokens start..stop-1, with unit keys `keys` [L, d], to C memories `tokens` [C, cap] of key sums [C, d]."""
    for c in range(len(budget)):
        count = min(start, budget[c])
        for t in range(start, stop):
            tokens[c, count] = t
            sums[c] += keys[t]
            count += 1
            if count > budget[c]:
                victim, border = 0, -np.inf
                for slot in range(count):
                    likeness = 0.0
                    for k in range(keys.shape[1]):
                        likeness += keys[tokens[c, slot], k] * sums[c, k]
                    if likeness / count > border:
                        victim, border = slot, likeness / count + TIE
                sums[c] -= keys[tokens[c, victim]]
                remove(victim, count, tokens[c])
                count -= 1
