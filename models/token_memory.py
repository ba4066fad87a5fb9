"""Memories of raw tokens: what policies that keep some tokens as they arrived and drop the others have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, TypeVar

import numpy as np
from pydantic import Field

from models.config import MOST, SlotConfig
from models.kernel import kernel
from models.mechanism import TIE, Contents, SlotMemory
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream

C = TypeVar("C", bound=SlotConfig)


class TokenMemory(SlotMemory[C]):
    """Slots that are tokens, in order of arrival: subclasses keep track of `slots.tokens`, and values follow."""

    def append(self, start: int, stop: int) -> None:
        """Take in tokens start..stop-1 without dropping any."""
        tokens, _, counts, held, peak = self.slots
        new = stop - start
        for c, count in enumerate(counts):
            tokens[c, count : count + new] = np.arange(start, stop)
        held += new * counts + new * (new + 1) // 2
        counts += new
        np.maximum(peak, counts, out=peak)

    def slide(self, budget: Ints, start: int, stop: int) -> None:
        """Take in tokens start..stop-1, and of all keep the newest `budget` [C]."""
        for tokens, kept in zip(self.slots.tokens, np.minimum(stop, budget).tolist(), strict=True):
            tokens[:kept] = np.arange(stop - kept, stop)
        self.count(budget, start, stop)

    def count(self, budget: Ints, start: int, stop: int) -> None:
        """Note the slots in use while tokens start..stop-1 arrive: min(t, `budget` [C]) after t tokens."""
        _, _, counts, held, peak = self.slots
        np.minimum(stop, budget, out=counts)
        np.maximum(peak, counts, out=peak)
        held += np.minimum(np.arange(start + 1, stop + 1), budget[:, None]).sum(axis=1)

    def keep(self, c: int, slots: Ints) -> None:
        """Drop all slots of config `c` but `slots`, which rise."""
        self.slots.tokens[c, : len(slots)] = self.slots.tokens[c, slots]
        self.slots.counts[c] = len(slots)

    def contents(self) -> Contents:
        """What each config holds now."""
        np.take(self.token_values, self.slots.tokens, out=self.slots.values, mode="clip")
        return super().contents()


class BudgetConfig(SlotConfig):
    """Options of memories that keep at most `budget` slots."""

    budget: int = Field(ge=0, le=MOST, description="most slots kept; 0 is no memory at all")


B = TypeVar("B", bound=BudgetConfig)


class BudgetMemory(TokenMemory[B]):
    """Token memories that differ in `budget` alone run as one group."""

    batch_over: ClassVar[tuple[str, ...]] = ("budget",)

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        """Forget everything."""
        super().start(stream, rng)
        self.budget = np.array([config.budget for config in self.configs], dtype=np.int64)


class OnlineMemory(BudgetMemory[B]):
    """Evicts at each token that exceeds the budget, so that after t tokens it holds min(t, budget)."""

    def capacity(self, config: B, length: int) -> int:
        """Budget and newcomer."""
        return min(config.budget + 1, length)

    @abstractmethod
    def update(self, similarities: Similarities, start: int, stop: int) -> None:
        """Bring `slots.tokens`, which is right up to token `start`, up to token `stop`."""

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        """Read tokens start..stop-1."""
        self.update(similarities, start, stop)
        self.count(self.budget, start, stop)


@kernel
def remove(slot: int, count: int, column: Ints | Floats) -> None:
    """Remove entry `slot` of the first `count`, keeping the others in order."""
    for later in range(slot, count - 1):
        column[later] = column[later + 1]


def largest(scores: Floats, count: int) -> Ints:
    """Indices, rising, of the `count` largest of non-negative `scores`; within a tie the lowest indices.

    Linear in the number of scores. `count` may be 0 and may exceed their number.
    """
    if count >= len(scores):
        return np.arange(len(scores))
    if count == 0:
        return np.arange(0)
    border = np.partition(scores, len(scores) - count)[len(scores) - count]
    chosen = scores > border * (1.0 + TIE)
    tied = np.flatnonzero(~chosen & (scores >= border * (1.0 - TIE)))
    chosen[tied[: count - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)
