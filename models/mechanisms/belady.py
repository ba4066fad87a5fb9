"""Belady's MIN: the offline item cache that no eviction rule can beat in hits."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from models.allocation import NEW, match
from models.allocation_reference import reference_match
from models.item_cache import ItemCacheConfig
from models.kernel import kernel
from models.mechanism import SlotMemory, Slots, Trace, mechanism
from models.reference import arrivals, unit_keys
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream
from models.token_memory import remove


class BeladyConfig(ItemCacheConfig):
    """One slot an item, evicted when its item's next token is farthest (MIN: Belady, IBM Syst. J. 5(2), 1966)."""

    name: Literal["belady"] = "belady"


@mechanism(BeladyConfig)
class Belady(SlotMemory[BeladyConfig]):
    """A bound on hits, not a rule: it knows each token's item and all tokens to come. Queries it does not know.

    Slots open and merge by key, as in the item caches; they are given up by item. The newcomer enters first and
    competes, so that the bound holds for memories that turn a token away as for those that cannot. Items that never
    come again are farthest; of these, as on any tie, the oldest slot leaves.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("budget", "tau", "similarity")

    def capacity(self, config: BeladyConfig, length: int) -> int:
        """Budget and newcomer."""
        return min(config.budget + 1, length)

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.tau = np.array([config.tau for config in self.configs])
        self.budget = np.array([config.budget for config in self.configs], dtype=np.int64)
        self.items, self.following = next_tokens(stream.items)
        self.upcoming = np.full(len(stream), len(stream), dtype=np.int64)

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        rows = similarities.rows(start, stop)
        stream = (self.token_values, self.items, self.following)
        allocate_farthest(rows, start, *stream, self.tau, self.budget, self.upcoming, self.slots)

    @classmethod
    def reference(cls, stream: Stream, config: BeladyConfig, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        keys, items = unit_keys(stream, dtype), stream.items.tolist()
        trace = Trace()
        held: list[int] = []
        for t, phase_ends in arrivals(stream):
            if reference_match(keys[t], keys[held], config.tau, trace) is None:
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
    rows: Floats,
    first: int,
    stream_values: Ints,
    items: Ints,
    following: Ints,
    tau: Floats,
    budget: Ints,
    upcoming: Ints,
    slots: Slots,
) -> None:
    """Feed a block of tokens, with cosines `rows` [b, n], to C memories.

    following [L]: each token's next token of its item; upcoming [items]: each item's next token, now.
    """
    for r in range(len(rows)):
        t = first + r
        upcoming[items[t]] = following[t]
        for c in range(len(slots.counts)):
            tokens, values, count = slots.tokens[c], slots.values[c], slots.counts[c]
            if match(rows[r], tokens, count, tau[c]) == NEW:
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
