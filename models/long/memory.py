"""The seam of memories that read a stream in chunks: what they keep is bounded by what they hold, not by the stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import numpy as np

from models.long.stream import LongStream
from models.mechanism import ABSTAINED, Mechanism, SlotMemory, Usage
from models.similarity import QUERY_BLOCK_ELEMENTS, QueryBlock
from models.stream import Floats, Ints, Phase

M = TypeVar("M", bound=Mechanism[Any])


class LongMemory(ABC, Generic[M]):
    """C configs of one mechanism that read one long stream: `read` chunk by chunk, then `settle` and `answer`.

    They decide what the mechanism decides on the whole stream, in chunks of any sizes. `memory` is the mechanism with
    those configs; it says how slots are read and what they cost.
    """

    def __init__(self, memory: M, stream: LongStream, rng: np.random.Generator) -> None:
        """Begin `stream`. `rng` descends from the trial's seed (child `mechanism`), as in `Mechanism.start`."""
        memory.start(stream.front(), rng)
        self.memory = memory
        self.length = len(stream)
        self.dim = stream.dim
        self.now = 0

    @abstractmethod
    def read(self, keys: Floats, values: Ints) -> None:
        """Take in the next tokens: unit `keys` [n, d] and their `values` [n]."""

    def settle(self) -> None:
        """Called after the last token of a phase, before its queries."""

    @abstractmethod
    def answer(self, queries: Floats, answers: Ints) -> Floats:
        """1 where the class read for a unit query is right, 0 where wrong, NaN where the memory abstains [C, Q]."""

    @abstractmethod
    def counts(self) -> Ints:
        """Slots in use [C], now."""

    @abstractmethod
    def usage(self) -> Usage:
        """Slots in use over the stream read so far."""


S = TypeVar("S", bound=SlotMemory[Any])


class LongSlots(LongMemory[S]):
    """Memories of slots, whose keys they hold in float64.

    keys    C times [m, d], or with room for more
    ids     C times [m]: the token whose key each slot stores
    values  C times [m]
    """

    keys: list[Floats]
    ids: list[Ints]
    values: list[Ints]

    def __init__(self, memory: S, stream: LongStream, rng: np.random.Generator) -> None:
        super().__init__(memory, stream, rng)
        size = len(memory)
        self._counts, self.held, self.peak = np.zeros((3, size), dtype=np.int64)
        self.keys = [np.empty((0, stream.dim)) for _ in range(size)]
        self.ids = [np.empty(0, dtype=np.int64) for _ in range(size)]
        self.values = [np.empty(0, dtype=np.int64) for _ in range(size)]

    def counts(self) -> Ints:
        return self._counts

    def usage(self) -> Usage:
        return Usage(self.held, self.peak)

    def slot_keys(self, c: int) -> Floats:
        """Unit keys [m, d] of the slots of config `c`."""
        return self.keys[c][: self._counts[c]]

    def answer(self, queries: Floats, answers: Ints) -> Floats:
        found = np.full((len(self.memory), len(queries)), np.nan)
        for c, count in enumerate(self._counts.tolist()):
            keys, values = self.slot_keys(c), self.values[c][:count]
            for part in query_parts(len(queries), count):
                block = QueryBlock(part.start, queries[part], keys)
                predicted = self.memory.predict(block, values)
                found[c, part] = np.where(predicted == ABSTAINED, np.nan, predicted == answers[part])
        return found


def query_parts(queries: int, slots: int) -> Iterator[slice]:
    """Ranges of queries whose cosines with so many slots fit in cache and memory."""
    size = max(1, QUERY_BLOCK_ELEMENTS // max(1, slots))
    for start in range(0, queries, size):
        yield slice(start, min(start + size, queries))


def as_phase(end: int, queries: Floats, answers: Ints) -> Phase:
    """Queries as a phase, for memories that are asked so."""
    every = np.arange(len(queries))
    return Phase(end, queries, answers, every, every)


def room(array: np.ndarray, rows: int) -> np.ndarray:
    """`array`, or a copy with room for at least `rows` rows: room doubles."""
    if rows <= len(array):
        return array
    grown = np.zeros((max(rows, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
