"""Token omission via attention: evict what the newest token attends to least."""

from __future__ import annotations

from typing import Literal

import numpy as np

from models.kernel import kernel
from models.mechanism import TIE, Trace, mechanism
from models.reference import arrivals, cosine, lowest, unit_keys
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream
from models.token_memory import BudgetConfig, OnlineMemory, remove


class TOVAConfig(BudgetConfig):
    """Token omission via attention: evict what the newest token attends to least (TOVA, arXiv 2401.06104, Sec. 3.2)."""

    name: Literal["tova"] = "tova"


@mechanism(TOVAConfig)
class TOVA(OnlineMemory[TOVAConfig]):
    """Write O(B d), read O(B d). The lowest attention is the lowest cosine, whatever the temperature.

    The newest token attends to itself too. Ties: the oldest slot leaves.
    """

    def update(self, similarities: Similarities, start: int, stop: int) -> None:
        evict_unattended(similarities.rows(start, stop), start, self.budget, self.slots.tokens)

    @classmethod
    def reference(cls, stream: Stream, config: TOVAConfig, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        keys = unit_keys(stream, dtype)
        trace = Trace()
        held: list[int] = []
        for t, phase_ends in arrivals(stream):
            held.append(t)
            if len(held) > config.budget:
                del held[lowest([cosine(keys[t], keys[slot]) for slot in held], trace, relative=False)]
            trace.count(len(held))
            if phase_ends:
                trace.record(held, stream)
        return trace


@kernel
def evict_unattended(rows: Floats, first: int, budget: Ints, tokens: Ints) -> None:
    """Offer a block of tokens, whose cosine rows are `rows` [b, n], to C memories `tokens` [C, cap]."""
    for c in range(len(budget)):
        count = min(first, budget[c])
        for r in range(len(rows)):
            tokens[c, count] = first + r
            count += 1
            if count > budget[c]:
                victim, border = 0, rows[r, tokens[c, 0]] - TIE
                for slot in range(1, count):
                    if rows[r, tokens[c, slot]] < border:
                        victim, border = slot, rows[r, tokens[c, slot]] - TIE
                remove(victim, count, tokens[c])
                count -= 1
