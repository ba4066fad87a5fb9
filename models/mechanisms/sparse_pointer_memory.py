"""The slots of SparsePointer, as a memory by themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.allocation import nearest
from models.allocation_centroid import slot_cosines
from models.config import MOST
from models.kernel import kernel
from models.mechanism import ABSTAINED, NEAR_ONE, TIE, Contents, SlotMemory, Slots, Trace, mechanism, scored
from models.mechanisms.knn import kth_largest, read_nearest
from models.reference import arrivals, cosine, highest, unit_keys
from models.similarity import QueryBlock, Similarities, softmax_numerators
from models.stream import Floats, Ints, Phase, Stream
from models.token_memory import BudgetConfig


class SparsePointerMemoryConfig(BudgetConfig):
    """A few slots that similar keys merge into, read by pointers at tokens (SparsePointer of arXiv 2606.05175).

    A token merges into the slot most like it if their cosine is above `merge_above`, else it takes an empty slot, else
    the one not written for longest. Kept: that policy, a merged key half way to the new one, a pointer at the token a
    slot took in last, and a read of the `k` best slots. Left out: all learning, thus the gate of writes (all have
    strength 1, with which none counts as empty), the gate of the pointer, and the values that are mixed into a model's
    residual stream: the answer is what is pointed at. The temperature is that of other memories here, not sqrt(d) / 8.
    """

    name: Literal["sparse_pointer_memory"] = "sparse_pointer_memory"
    merge_above: float = Field(0.85, ge=-1.0, le=1.0, description="cosine with a slot above which a token joins it")
    k: int = Field(4, ge=1, le=MOST, description="slots that are read, at most")


@mechanism(SparsePointerMemoryConfig)
class SparsePointerMemory(SlotMemory[SparsePointerMemoryConfig]):
    """Write O(B d), read O(B d). A slot's key is its own, and it notes its last write.

    Slots stand in order of last writes. Of equal cosines the slot that was opened first takes a token, in place of the
    slot it replaced; in reads the slots not written for longest do. A merged key that cancels has cosines of 0.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("budget", "merge_above", "k")
    compares_tokens: ClassVar[bool] = False
    metadata_bytes: ClassVar[int] = 4

    def capacity(self, config: SparsePointerMemoryConfig, length: int) -> int:
        return min(config.budget, length)

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        size, width = self.slots.tokens.shape
        self.budget = np.array([config.budget for config in self.configs], dtype=np.int64)
        self.merge_above = np.array([config.merge_above for config in self.configs])
        self.own_keys, self.lengths = np.zeros((size, stream.dim, width)), np.zeros((size, width))

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        keys = similarities.keys[start:stop]
        point(keys, start, self.budget, self.merge_above, self.slots, self.own_keys, self.lengths)

    def contents(self) -> Contents:
        counts, tokens = self.slots.counts, np.zeros_like(self.slots.tokens)
        keys = np.zeros((*tokens.shape, self.stream.dim))
        for c, count in enumerate(counts):
            order = self.slots.tokens[c, :count].argsort()
            tokens[c, :count] = self.slots.tokens[c, order]
            directed = self.lengths[c, order, None] > TIE
            np.divide(self.own_keys[c].T[order], self.lengths[c, order, None], out=keys[c, :count], where=directed)
        return Contents(tokens, self.token_values[tokens], counts, keys)

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        if self.config.reading == "argmax":
            return super().answer(block, phase)
        contents = self.contents()
        assert contents.keys is not None
        predicted = np.full((len(self), len(block)), ABSTAINED)
        for c, (config, count) in enumerate(zip(self.configs, contents.counts.tolist(), strict=True)):
            if count:
                own = QueryBlock(block.start, block.queries, contents.keys[c, :count])
                predicted[c] = self._read_few(own.cosines, contents.values[c, :count], config)
        return scored(predicted, block, phase)

    def _read_few(self, cosines: Floats, values: Ints, config: SparsePointerMemoryConfig) -> Ints:
        """Class [Q] read from the `k` best of slots with `cosines` [Q, n] and `values` [n]; n is at least 1."""
        assert config.reading != "argmax"
        every, k = np.zeros(1, dtype=np.int64), np.array([min(config.k, len(values))])
        borders = kth_largest(cosines, every, k)
        weights = softmax_numerators(cosines, config.reading)
        predicted = np.empty((1, len(cosines)), dtype=np.int64)
        read_nearest(cosines, weights, every, k, borders, values, self.stream.classes, predicted)
        return np.asarray(predicted[0])

    def reader(self) -> Callable[[Floats], int]:
        contents, config = self.contents(), self.config
        count = int(contents.counts[0])
        if config.reading == "argmax" or not count:
            return super().reader()
        assert contents.keys is not None
        keys, values = contents.keys[0, :count], contents.values[0, :count]
        return lambda query: int(self._read_few((keys @ query)[None], values, config)[0])

    @classmethod
    def reference(
        cls, stream: Stream, config: SparsePointerMemoryConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        keys = unit_keys(stream, dtype)
        trace = Trace(keys=[])
        held: list[Floats] = []
        last: list[int] = []  # token that a slot took in last
        for t, phase_ends in arrivals(stream):
            directions = [direction(key) for key in held]
            cosines = [min(1.0, cosine(keys[t], key)) for key in directions]
            cosines = [1.0 if similarity > NEAR_ONE else similarity for similarity in cosines]
            best = max(cosines, default=-math.inf)
            trace.decide(best - config.merge_above)
            if best > config.merge_above + TIE:
                slot = highest(cosines, trace, relative=False, tie=0.0)
                held[slot], last[slot] = held[slot] + 0.5 * (keys[t] - held[slot]), t
            elif len(held) < config.budget:
                held.append(keys[t])
                last.append(t)
            elif config.budget:
                slot = last.index(min(last))
                held[slot], last[slot] = keys[t], t
            trace.count(len(held))
            if phase_ends:
                trace.record(sorted(last), stream)
                own = [direction(key) for _, key in sorted(zip(last, held, strict=True), key=lambda pair: pair[0])]
                trace.keys = [*(trace.keys or []), np.array(own).reshape(-1, stream.dim)]
        return trace


def direction(key: Floats) -> Floats:
    """A key scaled to length 1; zero where there is next to nothing of it."""
    length = math.sqrt(math.fsum(key * key))
    return key / length if length > TIE else np.zeros_like(key)


@kernel
def point(
    keys: Floats, first: int, budget: Ints, merge_above: Floats, slots: Slots, own_keys: Floats, lengths: Floats
) -> None:
    """Write unit keys [b, d] of tokens from `first` on into C memories; `slots.tokens` are those taken in last.

    own_keys [C, d, cap], lengths [C, cap]: each slot's key and its length. Slots stay at their places.
    """
    every, cosines = np.arange(own_keys.shape[2]), np.empty(own_keys.shape[2])
    for c in range(len(budget)):
        tokens, held, count = slots.tokens[c], own_keys[c], slots.counts[c]
        for r in range(len(keys)):
            slot, best, rate = 0, -np.inf, 1.0
            if count > 0:
                slot_cosines(keys[r], held, lengths[c], count, cosines)
                slot = nearest(cosines, every, count)
                best = 1.0 if cosines[slot] > NEAR_ONE else cosines[slot]
            if best > merge_above[c] + TIE:
                rate = 0.5
            elif count < budget[c]:
                slot = count
                count += 1
            elif count > 0:
                slot = int(np.argmin(tokens[:count]))
            if count > 0:
                square = 0.0
                for k in range(len(held)):
                    held[k, slot] = (1.0 - rate) * held[k, slot] + rate * keys[r, k]
                    square += held[k, slot] ** 2
                tokens[slot], lengths[c, slot] = first + r, math.sqrt(square)
            slots.held[c] += count
            slots.peak[c] = max(slots.peak[c], count)
        slots.counts[c] = count
