"""Nearest-neighbour memory: every token is kept, the nearest few are read."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.config import MOST, SlotConfig
from models.kernel import kernel
from models.mechanism import TIE, Trace, mechanism, scored, winner
from models.reference import keep_all
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream
from models.token_memory import TokenMemory


class KNNConfig(SlotConfig):
    """Nearest neighbours: softmax over the k stored keys nearest to the query (kNN-LM, arXiv 1911.00172, Eq. 2)."""

    name: Literal["knn"] = "knn"
    k: int = Field(32, ge=1, le=MOST, description="neighbours read for a query, in slots; all if fewer are held")


@mechanism(KNNConfig)
class KNN(TokenMemory[KNNConfig]):
    """Append O(1), read O(N d). Size grows with the stream. Ties at the k-th place: the lowest slots are read.

    On unit keys |q - x|^2 = 2 (1 - cos), so a softmax over -distance^2 / 2 is the softmax over cosines used here.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("k",)
    compares_tokens: ClassVar[bool] = False

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        self.append(start, stop)

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        if self.config.reading == "argmax":
            return super().answer(block, phase)
        cosines, weights = block.cosines, block.read_weights(self.config.reading)
        held = cosines.shape[1]
        k = np.minimum([config.k for config in self.configs], held)
        borders = np.ascontiguousarray(np.partition(cosines, np.unique(held - k), axis=1)[:, held - k].T)
        predicted = np.empty((len(self), len(block)), dtype=np.int64)
        read_nearest(cosines, weights, k, borders, self.token_values, self.stream.classes, predicted)
        return scored(predicted, block, phase)

    @classmethod
    def reference(cls, stream: Stream, config: KNNConfig, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        return keep_all(stream)


@kernel
def read_nearest(
    cosines: Floats, weights: Floats, k: Ints, borders: Floats, values: Ints, classes: int, predicted: Ints
) -> None:
    """Class with the largest summed weight over the k nearest slots, per config [C] and query [Q].

    cosines, weights [Q, n]: of every slot; borders [C, Q]: k-th largest cosine; values [n]: class a slot stores.
    """
    votes = np.empty(classes)
    for c in range(len(k)):
        for q in range(len(cosines)):
            border = borders[c, q]
            ties = k[c]
            for cosine in cosines[q]:
                if cosine > border + TIE:
                    ties -= 1
            votes[:] = 0.0
            for slot in range(cosines.shape[1]):
                cosine = cosines[q, slot]
                tied = border - TIE <= cosine <= border + TIE
                if cosine > border + TIE or (tied and ties > 0):
                    votes[values[slot]] += weights[q, slot]
                    ties -= tied
            predicted[c, q] = winner(votes)
