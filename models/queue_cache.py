"""Item caches that keep their slots in queues, and remember keys of items that have left."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from models.allocation_reference import reference_match
from models.item_cache import ItemCacheConfig
from models.item_hits import HITS, hits_metric
from models.mechanism import SlotMemory, Trace
from models.queues import Queues
from models.reference import arrivals, unit_keys
from models.similarity import Similarities
from models.stream import Floats, Stream

Item = TypeVar("Item", bound=ItemCacheConfig)


class QueueCache(SlotMemory[Item]):
    """A token whose key is within `tau` of a stored one is a hit on the nearest slot, and the slot's value stays.

    Any other token is a miss, and opens a slot. If it is within `tau` of ghosts it takes the nearest one's place:
    items are known by their keys, so what a cache remembers of an item that has left is its key. A ghost has no value,
    answers nothing and is no slot, but its bytes count: as metadata, spread over the slots, for the most there ever
    were.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("budget", "tau", "similarity")
    ghost_metadata_bytes: ClassVar[int] = 0
    own_metrics: ClassVar[tuple[str, ...]] = (HITS,)

    def capacity(self, config: Item, length: int) -> int:
        """Budget and newcomer."""
        return min(config.budget + 1, length)

    def ghost_capacity(self, config: Item, length: int) -> int:
        """Most ghosts `config` can ever remember at once on a stream of `length` tokens, a new one included."""
        return 0

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        """Forget everything."""
        super().start(stream, rng)
        shape = self.slots.tokens.shape
        room = max(self.ghost_capacity(config, len(stream)) for config in self.configs)
        queue, place, uses = np.zeros((3, *shape), dtype=np.int64)
        ghosts, marks = np.zeros((2, len(self), room), dtype=np.int64)
        haunted, most, joins = np.zeros((3, len(self)), dtype=np.int64)
        items, hits = np.array(stream.items, dtype=np.int64), np.zeros(len(self), dtype=np.int64)
        own = np.zeros(len(self))
        self.queues = Queues(queue, place, uses, ghosts, marks, haunted, most, joins, own, items, hits)
        self.tau = np.array([config.tau for config in self.configs])
        self.budget = np.array([config.budget for config in self.configs], dtype=np.int64)

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        """Read tokens start..stop-1."""
        self.serve(similarities.rows(start, stop), start)

    def extras(self) -> dict[str, Floats]:
        """Hits by item."""
        return hits_metric(self.queues.hits, self.stream)

    @classmethod
    @abstractmethod
    def lists(cls, config: Item) -> Lists:
        """The rule of `config` as its paper has it."""

    @classmethod
    def reference(cls, stream: Stream, config: Item, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        """What a cache does that follows `lists`, token by token."""
        keys, lists = unit_keys(stream, dtype), cls.lists(config)
        trace = Trace()
        for t, phase_ends in arrivals(stream):
            held = sorted(lists.held())
            slot = reference_match(keys[t], keys[held], config.tau, trace)
            if slot is not None:
                lists.hit(held[slot])
            elif config.budget > 0:
                ghosts = list(lists.ghosts())
                ghost = reference_match(keys[t], keys[ghosts], config.tau, trace)
                lists.miss(t, None if ghost is None else ghosts[ghost])
            trace.count(len(lists.held()))
            if phase_ends:
                trace.record(sorted(lists.held()), stream)
        return trace

    @abstractmethod
    def serve(self, rows: Floats, first: int) -> None:
        """Read a block of tokens, the first of which is `first`, with cosines `rows` [b, n] to every token so far."""

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, Floats]:
        """Metadata [C] holds the ghosts too."""
        body, metadata = super().bytes_per_slot(dim, key_bytes)
        ghosts = self.queues.most * (dim * key_bytes + self.ghost_metadata_bytes)
        return body, metadata + ghosts / np.maximum(self.slots.counts, 1)


class Lists(Protocol):
    """A rule as its paper has it: lists of the tokens that opened slots."""

    def held(self) -> Collection[int]:
        """Tokens whose slots are open."""

    def ghosts(self) -> Collection[int]:
        """Tokens whose keys are remembered, in order of leaving."""

    def hit(self, token: int) -> None:
        """The slot that `token` opened is used."""

    def miss(self, token: int, ghost: int | None) -> None:
        """`token` opens a slot; `ghost` is remembered as its item."""
