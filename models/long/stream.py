"""Streams that are never in memory as a whole: their tokens come in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from models.stream import Floats, Ints, Phase, Stream


@dataclass(frozen=True)
class Chunk:
    """Tokens that follow each other: keys [n, d], values [n] and items [n], as in a `Stream`."""

    keys: Floats
    values: Ints
    items: Ints

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> Chunk:
        return Chunk(self.keys[part], self.values[part], self.items[part])


@dataclass(frozen=True)
class LongStream:
    """A stream whose tokens are made as they are read; only the queries of its phases are held.

    length         tokens L
    dim, classes, chance   as in a `Stream`
    phases         as in a `Stream`; the last ends with the last token
    distinct_by    distinct items among the tokens up to the end of each phase
    make           all tokens in order, in chunks of so many tokens; the same tokens at every call and in any chunks
    """

    length: int
    dim: int
    classes: int
    chance: float
    phases: tuple[Phase, ...]
    distinct_by: tuple[int, ...]
    make: Callable[[int], Iterator[Chunk]]

    def __len__(self) -> int:
        return self.length

    @property
    def distinct(self) -> int:
        """Number K of distinct items in the stream."""
        return self.distinct_by[-1]

    def distinct_until(self, end: int) -> int:
        """Number of distinct items among the first `end` tokens, for the end of a phase."""
        return self.distinct_by[[phase.end for phase in self.phases].index(end)]

    def chunks(self, size: int) -> Iterator[tuple[Chunk, Phase | None]]:
        """The tokens in chunks of `size` at most, each with the phase that ends with it, if one does."""
        ends = {phase.end: phase for phase in self.phases}
        read = 0
        for chunk in self.make(size):
            inside = [end - read for end in ends if read < end < read + len(chunk)]
            borders = [0, *sorted(inside), len(chunk)]
            for start, stop in pairwise(borders):
                yield chunk[start:stop], ends.get(read + stop)
            read += len(chunk)

    def whole(self) -> Stream:
        """The same stream in memory."""
        parts = list(self.make(self.length))
        keys, values, items = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("keys", "values", "items")
        )
        return Stream(keys, values, items, self.phases, self.classes, self.chance)

    def front(self) -> Stream:
        """Its first token as a stream: enough for a mechanism to say what its slots cost."""
        first = next(self.make(1))[:1]
        empty = np.empty(0, dtype=np.int64)
        phase = Phase(1, first.keys[:0], empty, empty, empty)
        return Stream(first.keys, first.values, first.items, (phase,), self.classes, self.chance)
