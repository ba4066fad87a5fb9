"""Cosines of one stream, computed once and read by every mechanism, budget and threshold.

Matrix products have shapes that depend on the stream alone, never on which mechanisms read them,
so a trial gets the same bits alone and in a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from models.stream import Floats, Phase, Stream, round_keys, unit

BLOCK_TOKENS = 256
BLOCK_ELEMENTS = 1 << 23
QUERY_BLOCK_ELEMENTS = 1 << 22


def softmax_numerators(cosines: Floats, temperature: float) -> Floats:
    """exp((cos - 1) / temperature), element by element."""
    weights = cosines - 1.0
    weights /= temperature
    return np.exp(weights, out=weights)


class Similarities:
    """Cosine rows of a stream, block by block. Keys are rounded to `dtype` once; arithmetic is float64."""

    def __init__(self, stream: Stream, dtype: str = "float32") -> None:
        self.stream = stream
        self.keys = unit(round_keys(stream.keys, dtype))
        self._columns = np.ascontiguousarray(self.keys.T)  # a copy, as A @ A.T of one array takes BLAS twice as long
        self._rows: tuple[int, int, Floats] | None = None
        self._weights: dict[float, Floats] = {}

    @property
    def block_tokens(self) -> int:
        """Tokens in a block: fewer on long streams, so that a block's cosines stay within 64 MiB."""
        return max(16, min(BLOCK_TOKENS, BLOCK_ELEMENTS // len(self.stream)))

    def segments(self) -> Iterator[tuple[int, int, Phase | None]]:
        """Ranges `start, stop` that tile the stream, each with the phase that ends at `stop`, if one does."""
        ends = {phase.end: phase for phase in self.stream.phases}
        for start, stop in pairwise(sorted({*range(0, max(ends), self.block_tokens), *ends})):
            yield start, stop, ends.get(stop)

    def rows(self, start: int, stop: int) -> Floats:
        """Cosines [stop - start, stop] of tokens start..stop-1 with every token before `stop`."""
        if self._rows is None or self._rows[:2] != (start, stop):
            self._rows = (start, stop, self.keys[start:stop] @ self._columns[:, :stop])
            self._weights.clear()
        return self._rows[2]

    def score_weights(self, temperature: float, start: int, stop: int) -> Floats:
        """exp((cos - 1) / temperature) for `rows(start, stop)`: unnormalised attention of each token over the past.

        Cosines are at most 1, so nothing overflows, and temperatures at least 0.005, so no weight vanishes.
        """
        rows = self.rows(start, stop)
        if temperature not in self._weights:
            self._weights[temperature] = softmax_numerators(rows, temperature)
        return self._weights[temperature]

    def query_blocks(self, phase: Phase) -> Iterator[QueryBlock]:
        """The phase's queries in blocks whose cosines with the tokens written so far fit in cache and memory."""
        queries = unit(phase.queries)
        size = max(1, QUERY_BLOCK_ELEMENTS // phase.end)
        for start in range(0, len(queries), size):
            yield QueryBlock(start, queries[start : start + size], self.keys[: phase.end])


class QueryBlock:
    """Cosines of some queries with every token written so far, shared by all memories that are read."""

    def __init__(self, start: int, queries: Floats, keys: Floats) -> None:
        self.start = start
        self.queries = queries
        self.cosines: Floats = queries @ keys.T
        self._weights: dict[float, Floats] = {}

    def __len__(self) -> int:
        return len(self.queries)

    def read_weights(self, temperature: float) -> Floats:
        """exp((cos - 1) / temperature) [Q, L] in float64: softmax numerators for any subset of the tokens.

        Temperatures are at least 0.005, so the smallest weight is exp(-400), well inside float64.
        """
        if temperature not in self._weights:
            self._weights[temperature] = softmax_numerators(self.cosines, temperature)
        return self._weights[temperature]
