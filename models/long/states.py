"""Memories of fixed size on long streams: their states are all that they keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.fixed_state import FixedSize
from models.long.memory import LongMemory, as_phase, query_parts
from models.long.stream import LongStream
from models.mechanism import Usage
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints

TOKENS_AT_ONCE = 256
"""Tokens of an update: what features and one-hot values of a block take stays small."""


class LongStates(LongMemory[FixedSize[Any]]):
    """States that take in tokens block by block, as on the whole stream."""

    def __init__(self, memory: FixedSize[Any], stream: LongStream, rng: np.random.Generator) -> None:
        super().__init__(memory, stream, rng)
        self._front = Similarities(stream.front())
        self._rows = memory.counts().copy()
        self._held = np.zeros_like(self._rows)

    def read(self, keys: Floats, values: Ints) -> None:
        for start in range(0, len(keys), TOKENS_AT_ONCE):
            part = slice(start, start + TOKENS_AT_ONCE)
            self.memory.update(self.memory.features(keys[part]), values[part])
        self._held += len(keys) * self._rows
        self.now += len(keys)

    def settle(self) -> None:
        self.memory.settle(self._front, self.now)

    def answer(self, queries: Floats, answers: Ints) -> Floats:
        phase, no_tokens = as_phase(self.now, queries, answers), np.empty((0, self.dim))
        parts = [
            self.memory.answer(QueryBlock(part.start, queries[part], no_tokens), phase)
            for part in query_parts(len(queries), self.memory.states.shape[1] + self.memory.stream.classes)
        ]
        return np.concatenate(parts, axis=1) if parts else np.empty((len(self.memory), 0))

    def counts(self) -> Ints:
        return self._rows

    def usage(self) -> Usage:
        return Usage(self._held, self._rows)
