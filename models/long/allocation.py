"""Memories that open slots by novelty, on long streams: a block of tokens meets the keys of the slots alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.allocation import Records
from models.allocation_memory import AllocationMemory
from models.long.memory import LongSlots, room
from models.long.stream import LongStream
from models.mechanism import Slots
from models.similarity import BLOCK_ELEMENTS, BLOCK_TOKENS
from models.stream import Floats, Ints


class LongAllocation(LongSlots[AllocationMemory[Any]]):
    """At hand are the keys of the slots and of a block of tokens; after a block the slots' keys are gathered."""

    def __init__(self, memory: AllocationMemory[Any], stream: LongStream, rng: np.random.Generator) -> None:
        super().__init__(memory, stream, rng)
        self._classes = memory.records.tally.shape[2]
        self._scores = [np.empty(0) for _ in range(len(memory))]
        self._last = [np.empty(0, dtype=np.int64) for _ in range(len(memory))]
        self._tally = [np.empty((0, self._classes), dtype=np.int64) for _ in range(len(memory))]

    def read(self, keys: Floats, values: Ints) -> None:
        for c in range(len(self.memory)):
            done = 0
            while done < len(keys):
                block = slice(done, done + block_tokens(int(self._counts[c])))
                self._read_block(c, self.now + done, keys[block], values[block])
                done = block.stop
        self.now += len(keys)

    def _read_block(self, c: int, now: int, keys: Floats, values: Ints) -> None:
        count, size = int(self._counts[c]), len(keys)
        self._grow(c, count + size + 1)
        at_hand = self.keys[c]
        at_hand[count : count + size] = keys
        ids, held, which = self.ids[c], self.values[c], slice(c, c + 1)
        ids[count : count + size] = np.arange(now, now + size)
        tokens = np.zeros((1, len(ids)), dtype=np.int64)
        tokens[0, :count] = np.arange(count)
        at_hand_values = np.concatenate([held[:count], values])
        slots = Slots(tokens, held[None], self._counts[which], self.held[which], self.peak[which])
        records = Records(self._scores[c][None], self._last[c][None], self._tally[c][None])
        rows = keys @ at_hand[: count + size].T
        self.memory.allocate(rows, count, now, at_hand_values, which, slots, records)
        kept = tokens[0, : self._counts[c]]
        moved = int(np.searchsorted(kept - np.arange(len(kept)), 1))  # the first slots stay where they are
        at_hand[moved : len(kept)] = at_hand[kept[moved:]]
        ids[moved : len(kept)] = ids[kept[moved:]]

    def _grow(self, c: int, rows: int) -> None:
        """Make room for so many slots."""
        for arrays in (self.keys, self.ids, self.values, self._scores, self._last, self._tally):
            arrays[c] = room(arrays[c], rows)


def block_tokens(slots: int) -> int:
    """Tokens in a block: fewer with many slots, so that its cosines stay within 64 MiB."""
    return max(16, min(BLOCK_TOKENS, BLOCK_ELEMENTS // (slots + BLOCK_TOKENS)))
