"""Belady's MIN: the offline cache of items that no memory of as many slots can beat in hits."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from models.item_hits import HITS, hits_metric, holder
from models.kernel import kernel
from models.mechanism import Role, SlotMemory, Slots, Trace, mechanism
from models.reference import arrivals
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream
from models.token_memory import BudgetConfig, remove


class BeladyConfig(BudgetConfig):
    """One slot an item, evicted when its item's next token is farthest (MIN: Belady, IBM Syst. J. 5(2), 1966)."""

    name: Literal["belady"] = "belady"


@mechanism(BeladyConfig)
class Belady(SlotMemory[BeladyConfig]):
    """A bound, not a rule: it knows each token's item and all tokens to come. Queries it does not know.

    No memory that keeps at most `budget` tokens' keys at a time has more `hits`, tokens whose item is held when they
    come, whatever the noise on keys and whatever it merges or turns away: slots open and merge by item here, and no key
    is compared with another. The newcomer enters first and competes. Items that never come again are farthest; of
    these, as on any tie, the oldest slot leaves. Of recall it is no bound: that is `optimal`.
    """

    role: ClassVar[Role] = "bound"
    bounds: ClassVar[str] = "bound of hits, not recall"
    batch_over: ClassVar[tuple[str, ...]] = ("budget",)
    compares_tokens: ClassVar[bool] = False
    own_metrics: ClassVar[tuple[str, ...]] = (HITS,)

    def capacity(self, config: BeladyConfig, length: int) -> int:
        """Budget and newcomer."""
        return min(config.budget + 1, length)

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.budget = np.array([config.budget for config in self.configs], dtype=np.int64)
        self.items, self.following = next_tokens(stream.items)
        self.upcoming = np.full(len(stream), len(stream), dtype=np.int64)
        self.hits = np.zeros(len(self), dtype=np.int64)

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        self.see(start, stop)

    def see(self, start: int, stop: int) -> None:
        """Read tokens start..stop-1: their keys do not matter."""
        stream = (self.token_values, self.items, self.following)
        allocate_farthest(start, stop, *stream, self.budget, self.upcoming, self.slots, self.hits)

    def extras(self) -> dict[str, Floats]:
        """Hits by item."""
        return hits_metric(self.hits, self.stream)

    @classmethod
    def reference(cls, stream: Stream, config: BeladyConfig, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        items = stream.items.tolist()
        trace = Trace()
        held: list[int] = []
        for t, phase_ends in arrivals(stream):
            if items[t] not in [items[token] for token in held]:
                held.append(t)
            if len(held) > config.budget:
                ahead = items[t + 1 :]
                held.remove(
                    max(held, key=lambda token: ahead.index(items[token]) if items[token] in ahead else math.inf)
                )
            trace.count(len(held))
            if phase_ends:
                trace.record(held, stream)
        return trace


def next_tokens(items: Ints) -> tuple[Ints, Ints]:
    """Items [L] numbered from 0, and for each token the next token of its item; L if there is none."""
    _, numbered = np.unique(items, return_inverse=True)
    order = np.argsort(numbered, kind="stable")
    following = np.full(len(items), len(items), dtype=np.int64)
    same = numbered[order[1:]] == numbered[order[:-1]]
    following[order[:-1][same]] = order[1:][same]
    return numbered.astype(np.int64), following


@kernel
def allocate_farthest(
    first: int,
    stop: int,
    stream_values: Ints,
    items: Ints,
    following: Ints,
    budget: Ints,
    upcoming: Ints,
    slots: Slots,
    hits: Ints,
) -> None:
    """Feed tokens first..stop-1 to C memories, and count the `hits` [C] of each.

    following [L]: each token's next token of its item; upcoming [items]: each item's next token, now.
    """
    for t in range(first, stop):
        upcoming[items[t]] = following[t]
        for c in range(len(slots.counts)):
            tokens, values, count = slots.tokens[c], slots.values[c], slots.counts[c]
            if holder(items[t], tokens, count, items) >= 0:
                hits[c] += 1
            else:
                tokens[count], values[count] = t, stream_values[t]
                count += 1
            if count > budget[c]:
                victim = 0
                for slot in range(1, count):
                    if upcoming[items[tokens[slot]]] > upcoming[items[tokens[victim]]]:
                        victim = slot
                remove(victim, count, tokens)
                remove(victim, count, values)
                count -= 1
            slots.counts[c] = count
            slots.held[c] += count
            slots.peak[c] = max(slots.peak[c], count)
