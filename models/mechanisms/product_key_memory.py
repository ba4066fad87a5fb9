"""Product-key memory: a value for every pair of two half-keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.config import MechanismConfig, Temperature
from models.fixed_state import NUMBER_BYTES, FixedSize, one_hot, trace_states
from models.kernel import kernel
from models.mechanism import Trace, best_class, mechanism, scored, value_bytes
from models.reference import unit_keys
from models.similarity import QueryBlock
from models.stream import Floats, Ints, Phase, Stream, unit


class ProductKeyMemoryConfig(MechanismConfig):
    """Values under all pairs of two codebooks' half-keys; the k best pairs are read (arXiv 1907.05242, Sec. 3).

    A token is written to the pair whose halves are most like its own. Kept: the product of codebooks, the exact search
    for the k best pairs among k^2, and the softmax over these. Left out: all learning (half-keys are random, and values
    are the mean or the last of what met in a slot, not learned by gradient), the query network and its normalisation,
    and more than one head.
    """

    name: Literal["product_key_memory"] = "product_key_memory"
    side: int = Field(16, ge=1, le=1024, description="half-keys in each of two codebooks; slots are their side^2 pairs")
    keep: Literal["mean", "last"] = Field(
        "mean", description="value of a slot: mean of its tokens' values, or the last"
    )
    k: int = Field(32, ge=1, le=1_048_576, description="slots read for a query; all if there are fewer")
    temperature: Temperature = Field(
        0.05, description="softmax temperature of the read, in units of cosine with the slots' keys"
    )


@mechanism(ProductKeyMemoryConfig)
class ProductKeyMemory(FixedSize[ProductKeyMemoryConfig]):
    """Write O(side d), read O(side (d + log side) + k^2 log k + k classes), side^2 slots, written or not.

    A mean takes a number a class, and one for how many tokens met. Ties go to the half-keys that come first, and among
    classes, whose scores are tied within 1e-9 of the largest, to the lowest. Where no slot read was ever written, the
    memory abstains.
    """

    seed_free: ClassVar[bool] = False
    batch_over: ClassVar[tuple[str, ...]] = ("k", "temperature")

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.codebooks = draw_codebooks(self.config.side, stream.dim, rng)
        self.met = np.zeros(self.config.side**2, dtype=np.int64)
        self.table = np.zeros(self.states.shape[1:])
        self.states = np.broadcast_to(self.table, self.states.shape)  # configs differ in reading alone

    def rows(self, dim: int) -> int:
        return self.config.side**2

    def halves(self, keys: Floats) -> tuple[Floats, Floats]:
        """Products [n, side] of either half of unit keys [n, d] with its codebook."""
        left, right = self.codebooks
        border = left.shape[1]
        return keys[:, :border] @ left.T, keys[:, border:] @ right.T

    def update(self, features: Floats, values: Ints) -> None:
        left, right = self.halves(features)
        slots = left.argmax(axis=1) * self.config.side + right.argmax(axis=1)
        store(slots, values, self.config.keep == "mean", self.met, self.table)

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, int]:
        """The last value, a class id or a vector; of a mean, its numbers and that of the tokens that met."""
        if self.config.keep == "last":
            return value_bytes(self.stream.value_width, key_bytes), 0
        return NUMBER_BYTES * (self.stream.value_width or self.stream.classes), NUMBER_BYTES

    def bytes_fixed(self) -> int:
        """Two codebooks of half-keys."""
        return NUMBER_BYTES * self.config.side * self.stream.dim

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        halves = self.halves(block.queries)
        predicted = [best_class(self.scores(halves, config)) for config in self.configs]
        return scored(np.stack(predicted), block, phase)

    def scores(self, halves: tuple[Floats, Floats], config: ProductKeyMemoryConfig) -> Floats:
        """What queries with these products read [Q, classes]."""
        scores = np.zeros((len(halves[0]), self.stream.classes))
        read_pairs(*halves, min(config.k, config.side**2), config.temperature, self.table, scores)
        return scores

    def reader(self) -> Callable[[Floats], int]:
        def read(query: Floats) -> int:
            return int(best_class(self.scores(self.halves(query[None]), self.config))[0])

        return read

    @classmethod
    def reference(
        cls, stream: Stream, config: ProductKeyMemoryConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        left, right = draw_codebooks(config.side, stream.dim, rng)
        keys = [np.concatenate([a, b]) for a in left for b in right]

        def similarities(query: Floats) -> list[float]:
            return [math.fsum(query * key) for key in keys]

        def states() -> Iterator[Floats]:
            met: list[list[Floats]] = [[] for _ in keys]
            state = np.zeros((len(keys), stream.classes))
            for key, value in zip(unit_keys(stream, dtype), one_hot(stream), strict=True):
                products = similarities(key)
                slot = products.index(max(products))
                met[slot].append(value)
                state = state.copy()
                state[slot] = np.mean(met[slot], axis=0) if config.keep == "mean" else value
                yield state

        trace = trace_states(stream, states())
        for phase, state in zip(stream.phases, trace.states, strict=True):
            scores = []
            for query in unit(phase.queries):
                products = similarities(query)
                best = sorted(range(len(keys)), key=lambda slot: (-products[slot], slot))[: config.k]
                weights = np.array([math.exp((products[n] - products[best[0]]) / config.temperature) for n in best])
                scores.append(weights / weights.sum() @ state[best])
            trace.scores.append(np.array(scores))
        return trace


def draw_codebooks(side: int, dim: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Random half-keys [side, d / 2], rounded down, and [side, d / 2], rounded up, any two of which are a unit key."""
    narrow, wide = dim // 2, dim - dim // 2
    shares = np.sqrt(0.5 if narrow else 0.0), np.sqrt(0.5 if narrow else 1.0)
    left, right = (unit(rng.standard_normal((side, width))) for width in (narrow, wide))
    return left * shares[0], right * shares[1]


@kernel
def store(slots: Ints, values: Ints, mean: bool, met: Ints, table: Floats) -> None:
    """Let `slots` [b] take in classes `values` [b]; met [n]: tokens a slot has met, table [n, classes]."""
    for t in range(len(slots)):
        slot = slots[t]
        met[slot] += 1
        rate = 1.0 / met[slot] if mean else 1.0
        for value in range(table.shape[1]):
            table[slot, value] += rate * ((value == values[t]) - table[slot, value])


@kernel
def read_pairs(left: Floats, right: Floats, k: int, temperature: float, table: Floats, scores: Floats) -> None:
    """Add to `scores` [Q, classes] what the k best pairs of half-keys, by products [Q, side] with queries, hold.

    A pair among the k best has halves among the k best. Candidates stand in the order of slots, and sorts are stable.
    """
    side = left.shape[1]
    few = min(k, side)
    for q in range(len(left)):
        lefts = np.sort(np.argsort(-left[q], kind="mergesort")[:few])
        rights = np.sort(np.argsort(-right[q], kind="mergesort")[:few])
        sums = np.empty(few * few)
        for i in range(few):
            for j in range(few):
                sums[i * few + j] = left[q, lefts[i]] + right[q, rights[j]]
        best = np.argsort(-sums, kind="mergesort")[:k]
        weights = np.exp((sums[best] - sums[best[0]]) / temperature)
        weights /= weights.sum()
        for n in range(len(best)):
            slot = lefts[best[n] // few] * side + rights[best[n] % few]
            for value in range(table.shape[1]):
                scores[q, value] += weights[n] * table[slot, value]
