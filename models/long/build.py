"""The Dirichlet-process cache without a cap, and with centroids, on long streams."""

from __future__ import annotations

import numpy as np

from models.allocation import Records, follow
from models.allocation_centroid import allocate_centroid
from models.blocked import BlockedBuild
from models.long.memory import LongSlots, room
from models.long.stream import LongStream
from models.mechanism import TIE, Slots
from models.mechanisms.dp_cache import DPCache
from models.stream import Floats, Ints


class ChunkedBuild(BlockedBuild):
    """The blocked build of slots where keys of slots, and of a block of tokens after them, are all that is at hand."""

    def __init__(self, dim: int, tau: float) -> None:
        super().__init__(np.empty((0, dim)), tau)

    def take(self, keys: Floats) -> Ints:
        """The slot [n] that each of the next tokens opens or merges into."""
        slots = np.empty(len(keys), dtype=np.int64)
        for start in range(0, len(keys), self.block):
            part = keys[start : start + self.block]
            first, end = self.count, self.count + len(part)
            for name in ("keys", "lengths", "tokens", "assignment"):
                setattr(self, name, room(getattr(self, name), end))
            self.keys[first:end] = part
            self.read(first, end)
            slots[start : start + len(part)] = self.assignment[first:end]
            opened = self.tokens[first : self.count]
            self.keys[first : self.count] = self.keys[opened]
            self.lengths[first : self.count] = self.lengths[opened]
            self.tokens[first : self.count] = np.arange(first, self.count)
        return slots


class LongBuild(LongSlots[DPCache]):
    """Slots that nothing evicts: built in blocks, as on streams in memory of 4,096 tokens and more."""

    def __init__(self, memory: DPCache, stream: LongStream, rng: np.random.Generator) -> None:
        super().__init__(memory, stream, rng)
        classes = memory.records.tally.shape[2]
        self._builds = [ChunkedBuild(stream.dim, config.tau) for config in memory.configs]
        self._tally = [np.empty((0, classes), dtype=np.int64) for _ in range(len(memory))]

    def read(self, keys: Floats, values: Ints) -> None:
        for c, build in enumerate(self._builds):
            before = int(self._counts[c])
            assignment = build.take(keys)
            self.ids[c] = room(self.ids[c], build.count)
            self.values[c] = room(self.values[c], build.count)
            self._tally[c] = room(self._tally[c], build.count)
            which = slice(c, c + 1)
            slots = Slots(
                self.ids[c][None], self.values[c][None], self._counts[which], self.held[which], self.peak[which]
            )
            follow(assignment, 0, len(keys), values, self.memory.rule.keep, 0, slots, self._tally[c])
            self.ids[c][before : build.count] += self.now
        self.now += len(keys)

    def slot_keys(self, c: int) -> Floats:
        build = self._builds[c]
        keys: Floats = build.keys[: build.count].astype(np.float64, copy=False)
        return keys


class LongCentroids(LongSlots[DPCache]):
    """Slots whose keys are normalised sums: no token's key is held."""

    def __init__(self, memory: DPCache, stream: LongStream, rng: np.random.Generator) -> None:
        super().__init__(memory, stream, rng)
        size, classes = len(memory), memory.records.tally.shape[2]
        self._sums = [np.empty((0, stream.dim)) for _ in range(size)]
        self._lengths, self._scores = ([np.empty(0) for _ in range(size)] for _ in range(2))
        self._last = [np.empty(0, dtype=np.int64) for _ in range(size)]
        self._tally = [np.empty((0, classes), dtype=np.int64) for _ in range(size)]

    def read(self, keys: Floats, values: Ints) -> None:
        for c in range(len(self.memory)):
            self._grow(c, int(self._counts[c]) + len(keys) + 1)
            which = slice(c, c + 1)
            slots = Slots(
                self.ids[c][None], self.values[c][None], self._counts[which], self.held[which], self.peak[which]
            )
            records = Records(self._scores[c][None], self._last[c][None], self._tally[c][None])
            sums = np.ascontiguousarray(self._sums[c].T)[None]
            rule = self.memory.rule_of(which)
            allocate_centroid(keys, 0, self.now, values, rule, slots, records, sums, self._lengths[c][None])
            self._sums[c] = np.ascontiguousarray(sums[0].T)
        self.now += len(keys)

    def slot_keys(self, c: int) -> Floats:
        count = int(self._counts[c])
        lengths = self._lengths[c][:count, None]
        sums = self._sums[c][:count]
        return np.divide(sums, lengths, where=lengths > TIE, out=np.zeros_like(sums))

    def _grow(self, c: int, rows: int) -> None:
        """Make room for so many slots."""
        for arrays in (self.ids, self.values, self._sums, self._lengths, self._scores, self._last, self._tally):
            arrays[c] = room(arrays[c], rows)
