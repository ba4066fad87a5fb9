"""Nearest-neighbour memory: every token is kept, the nearest few are read."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.attending import AttentionBlock
from models.config import MOST, SlotConfig
from models.kernel import kernel
from models.mechanism import ABSTAINED, TIE, Trace, mechanism, scored, winner
from models.reference import keep_all, keep_newest
from models.selective_memory import foremost
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream
from models.token_memory import TokenMemory


class KNNConfig(SlotConfig):
    """Nearest neighbours: softmax over the k stored keys nearest to the query (kNN-LM, arXiv 1911.00172, Eq. 2).

    With a `budget` it is the memory of the Memorizing Transformer (arXiv 2203.08913, Sec. 3), which keeps the newest
    keys and values, exactly as they were. Left out: the learned gate by which a head mixes it with local attention.
    """

    name: Literal["knn"] = "knn"
    k: int = Field(32, ge=1, le=MOST, description="neighbours read for a query, in slots; all if fewer are held")
    budget: int | None = Field(
        None, ge=0, le=MOST, description="most slots kept, the newest; 0 is no memory at all; all tokens where absent"
    )


@mechanism(KNNConfig)
class KNN(TokenMemory[KNNConfig]):
    """Append O(1), read O(n d) for n slots, whatever the budget. Ties at the k-th place: the oldest are read.

    On unit keys |q - x|^2 = 2 (1 - cos), so a softmax over -distance^2 / 2 is the softmax over cosines used here.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("k", "budget")
    compares_tokens: ClassVar[bool] = False

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.budget = np.array([room(config, len(stream)) for config in self.configs], dtype=np.int64)

    def capacity(self, config: KNNConfig, length: int) -> int:
        return room(config, length)

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        self.slide(self.budget, start, stop)

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        if self.config.reading == "argmax":
            return super().answer(block, phase)
        cosines, weights = block.cosines, block.read_weights(self.config.reading)
        first = cosines.shape[1] - self.slots.counts
        k = np.minimum([config.k for config in self.configs], self.slots.counts)
        borders = kth_largest(cosines, first, k)
        predicted = np.empty((len(self), len(block)), dtype=np.int64)
        read_nearest(cosines, weights, first, k, borders, self.token_values, self.stream.classes, predicted)
        return scored(predicted, block, phase)

    def attends(self, c: int, block: AttentionBlock, phase: Phase) -> Floats:
        """Softmax numerators over the neighbours, which cosines find."""
        first = block.cosines.shape[1] - int(self.slots.counts[c])
        visible = np.zeros(block.cosines.shape, dtype=np.bool_)
        if self.slots.counts[c]:
            visible[:, first:] = foremost(block.cosines[:, first:], self.configs[c].k)
        return block.over(visible)

    @classmethod
    def reference(cls, stream: Stream, config: KNNConfig, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        if config.budget is None:
            return keep_all(stream)
        return keep_newest(stream, config.budget)


def room(config: KNNConfig, length: int) -> int:
    """Most slots `config` keeps of a stream of `length` tokens."""
    return length if config.budget is None else min(config.budget, length)


def kth_largest(cosines: Floats, first: Ints, k: Ints) -> Floats:
    """k-th largest [C, Q] of the cosines [Q, n] with tokens `first` [C] and later; 0 where there are none."""
    borders = np.zeros((len(k), len(cosines)))
    for start in np.unique(first[k > 0]):
        among = np.flatnonzero((first == start) & (k > 0))
        places = cosines.shape[1] - start - k[among]
        borders[among] = np.partition(cosines[:, start:], np.unique(places), axis=1)[:, places].T
    return borders


@kernel
def read_nearest(
    cosines: Floats, weights: Floats, first: Ints, k: Ints, borders: Floats, values: Ints, classes: int, predicted: Ints
) -> None:
    """Class with the largest summed weight over the k nearest slots, per config [C] and query [Q].

    cosines, weights [Q, n]: of every token; first [C]: the oldest token that is a slot; borders [C, Q]: k-th largest
    cosine; values [n]: class a token stores. ABSTAINED where there are no slots.
    """
    votes = np.empty(classes)
    for c in range(len(k)):
        for q in range(len(cosines)):
            border = borders[c, q]
            ties = k[c]
            for slot in range(first[c], cosines.shape[1]):
                if cosines[q, slot] > border + TIE:
                    ties -= 1
            votes[:] = 0.0
            for slot in range(first[c], cosines.shape[1]):
                cosine = cosines[q, slot]
                tied = border - TIE <= cosine <= border + TIE
                if cosine > border + TIE or (tied and ties > 0):
                    votes[values[slot]] += weights[q, slot]
                    ties -= tied
            predicted[c, q] = winner(votes) if k[c] > 0 else ABSTAINED
