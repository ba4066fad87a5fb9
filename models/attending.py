"""Queries that attend as a layer of a model does: by products of keys and queries as they are, not by cosines."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from models.similarity import QueryBlock
from models.stream import Attention, Floats, Ints

Mask = NDArray[np.bool_]


class AttentionBlock(QueryBlock):
    """A block of queries on a stream of keys, values and queries of an attention layer.

    Cosines say which tokens stay and which are read; `logits` say how much of each. Arrays are of the tokens so far:
    raw_queries [Q, d] and raw_keys [n, d] as the layer has them, values [n, dv], None where there are classes alone.
    """

    def __init__(self, block: QueryBlock, attention: Attention, keys: Floats, queries: Floats) -> None:
        self.start, self.queries, self.cosines, self._weights = block.start, block.queries, block.cosines, {}
        self.raw_keys = keys
        self.raw_queries = queries[block.start : block.start + len(block)]
        self.values = None if attention.values is None else attention.values[: len(keys)]
        self.scale = attention.scale

    @cached_property
    def logits(self) -> Floats:
        """Products [Q, n], scaled."""
        return self.raw_queries @ self.raw_keys.T * self.scale

    @cached_property
    def full(self) -> tuple[Floats, Ints]:
        """Outputs [Q, dv] of full attention, and the token [Q] that it attends to most."""
        return self.read(self.over(np.ones(self.logits.shape, dtype=np.bool_)))

    def over(self, visible: Mask) -> Floats:
        """Softmax numerators [Q, n] over the tokens that are `visible` [Q, n] to each query."""
        return numerators(np.where(visible, self.logits, -np.inf))

    def read(self, weights: Floats) -> tuple[Floats, Ints]:
        """What `weights` [Q, n] read: outputs [Q, dv], and the heaviest token [Q]; zero, and -1, where all are 0."""
        totals = weights.sum(axis=1, keepdims=True)
        values = np.empty((len(self.raw_keys), 0)) if self.values is None else self.values
        outputs = np.divide(weights @ values, totals, out=np.zeros((len(self), values.shape[1])), where=totals > 0.0)
        return outputs, np.where(totals[:, 0] > 0.0, weights.argmax(axis=1), -1)


def numerators(logits: Floats) -> Floats:
    """exp(logits - the largest of a row) [Q, n]; 0 throughout where all are -inf."""
    largest = logits.max(axis=1, keepdims=True)
    weights: Floats = np.exp(logits - np.where(largest > -np.inf, largest, 0.0))
    return weights
