"""Memories that hold all tokens of a phase and drop the less valuable at its end, by scores of their keys."""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from typing import TypeVar

import numpy as np

from models.mechanism import Trace
from models.reference import arrivals, top, unit_keys
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream
from models.token_memory import BudgetConfig, BudgetMemory, largest

B = TypeVar("B", bound=BudgetConfig)


class PhaseMemory(BudgetMemory[B]):
    """Write O(1); at a phase end the first `sinks` slots stay, and of the others the best of the budget's rest.

    Scores are of all that is held then: the tokens of the phase, and those that outlived earlier ones. The peak is the
    most ever held, N slots in one phase. Ties: the oldest slot stays.
    """

    @classmethod
    def sinks(cls, config: B) -> int:
        """Oldest slots that always stay and are not scored."""
        return 0

    @classmethod
    @abstractmethod
    def scores(cls, keys: Floats, config: B) -> Floats:
        """Value [n] of each of the unit keys [n, d], none below 0."""

    @classmethod
    @abstractmethod
    def reference_scores(cls, keys: Floats, config: B) -> list[float]:
        """The same, key by key."""

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        """Take in tokens start..stop-1."""
        self.append(start, stop)

    def settle(self, similarities: Similarities, stop: int) -> None:
        """Drop what exceeds the budget."""

        def score(held: Ints | slice) -> Floats:
            return self.scores(similarities.keys[held][self.sinks(self.config) :], self.config)

        whole = cache(lambda: score(slice(stop)))
        for c, (budget, count) in enumerate(zip(self.budget, self.slots.counts, strict=True)):
            if count <= budget:
                continue
            sinks = min(self.sinks(self.config), budget)
            kept = np.arange(sinks)
            if budget > sinks:
                values = whole() if count == stop else score(self.slots.tokens[c, :count])
                kept = np.concatenate([kept, sinks + largest(values, budget - sinks)])
            self.keep(c, kept)

    @classmethod
    def reference(cls, stream: Stream, config: B, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        """The same rule as a plain loop."""
        keys = unit_keys(stream, dtype)
        trace = Trace()
        held: list[int] = []
        for t, phase_ends in arrivals(stream):
            held.append(t)
            trace.count(len(held))
            if not phase_ends:
                continue
            if len(held) > config.budget:
                sinks = held[: min(cls.sinks(config), config.budget)]
                rest = held[len(sinks) :]
                room = config.budget - len(sinks)
                values = cls.reference_scores(keys[rest], config) if room else [0.0] * len(rest)
                held = sinks + [rest[slot] for slot in top(values, room, trace)]
            trace.record(held, stream)
        return trace
