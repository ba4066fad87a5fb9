"""Memories that keep every token in blocks, and read the blocks whose summaries are most like the query."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from models.config import SlotConfig
from models.selective_memory import Mask, SelectiveMemory
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream

C = TypeVar("C", bound=SlotConfig)


class Blocks(NamedTuple):
    """borders [m + 1]: block b holds tokens borders[b]..borders[b + 1]-1; summaries [m, d]: a key each."""

    borders: Ints
    summaries: Floats


class BlockMemory(SelectiveMemory[C]):
    """Holds all tokens, and a summary of each block of them; subclasses say what blocks there are and which are read.

    Blocks are laid out anew at each phase end.
    """

    border_bytes: ClassVar[int] = 0
    """Bytes that tell where a block begins, if that must be kept."""

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        """Forget everything."""
        super().start(stream, rng)
        nothing = Blocks(np.zeros(1, dtype=np.int64), np.zeros((0, stream.dim)))
        self.blocks = [nothing] * len(self)

    @abstractmethod
    def divide(self, keys: Floats, config: C) -> Blocks:
        """Blocks of the unit keys [n, d] of all tokens so far."""

    @abstractmethod
    def chosen(self, scores: Floats, config: C) -> Mask:
        """Blocks that queries read [Q, m], by their products [Q, m] with the summaries."""

    def settle(self, similarities: Similarities, stop: int) -> None:
        """Lay out the blocks of the tokens before `stop`."""
        super().settle(similarities, stop)
        self.blocks = [self.divide(self.keys, config) for config in self.configs]

    def shares(self, c: int, block: QueryBlock, phase: Phase) -> Floats:
        """A softmax over the tokens of the chosen blocks."""
        borders, summaries = self.blocks[c]
        chosen = self.chosen(block.queries @ summaries.T, self.configs[c])
        return self.restricted(block, np.repeat(chosen, np.diff(borders), axis=1))

    def reader(self) -> Callable[[Floats], int]:
        """A product with the summaries, one with the keys of the chosen blocks, and a vote of their values."""
        read_tokens, config = self.token_reader(), self.config
        borders, summaries = self.blocks[0]

        def read(query: Floats) -> int:
            chosen = self.chosen((summaries @ query)[None], config)[0]
            ranges = [np.arange(borders[b], borders[b + 1]) for b in np.flatnonzero(chosen)]
            return read_tokens(query, np.concatenate(ranges))

        return read

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, Floats]:
        """Bytes of a key and value, and a token's share of the summaries and of where their blocks begin [C]."""
        summaries = np.array([len(blocks.summaries) for blocks in self.blocks])
        shares = summaries * (dim * key_bytes + self.border_bytes) / np.maximum(self.counts(), 1)
        return dim * key_bytes + self.value_bytes(key_bytes), shares
