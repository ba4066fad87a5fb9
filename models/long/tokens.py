"""Memories of raw tokens on long streams: of each token that leaves, nothing stays."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from models.long.memory import LongSlots
from models.long.stream import LongStream
from models.stream import Floats, Ints
from models.token_memory import BudgetMemory


class LongTokens(LongSlots[BudgetMemory[Any]]):
    """Slots are tokens in order of arrival; subclasses choose which of those held and the new ones stay."""

    @abstractmethod
    def choose(self, c: int, ids: Ints, start: int, stop: int) -> Ints:
        """Tokens, rising, that config `c` holds after token stop - 1; it held `ids` before token `start`."""

    def read(self, keys: Floats, values: Ints) -> None:
        start, stop = self.now, self.now + len(keys)
        self.draw(len(keys))
        for c, budget in enumerate(self.memory.budget.tolist()):
            ids = self.ids[c]
            kept = self.choose(c, ids, start, stop)
            old = np.searchsorted(ids, kept[: np.searchsorted(kept, start)])
            new = kept[len(old) :] - start
            self.keys[c] = np.concatenate([self.keys[c][old], keys[new]])
            self.values[c] = np.concatenate([self.values[c][old], values[new]])
            self.ids[c] = kept
            self._counts[c] = len(kept)
            self.held[c] += int(np.minimum(np.arange(start + 1, stop + 1), budget).sum())
        np.maximum(self.peak, self._counts, out=self.peak)
        self.now = stop

    def draw(self, tokens: int) -> None:
        """Draw what the next `tokens` need, for all configs at once."""


class LongRecency(LongTokens):
    """The newest tokens."""

    def choose(self, c: int, ids: Ints, start: int, stop: int) -> Ints:
        return np.arange(stop - min(stop, int(self.memory.budget[c])), stop)


class LongSinks(LongTokens):
    """The first tokens and the newest."""

    def choose(self, c: int, ids: Ints, start: int, stop: int) -> Ints:
        config = self.memory.configs[c]
        kept = min(stop, config.budget)
        sinks = min(kept, config.kept_sinks)
        return np.concatenate([np.arange(sinks), np.arange(stop - (kept - sinks), stop)])


class LongSample(LongTokens):
    """A uniform sample; one number a token is drawn, which budgets share."""

    def __init__(self, memory: BudgetMemory[Any], stream: LongStream, rng: np.random.Generator) -> None:
        self._rng = rng
        super().__init__(memory, stream, np.random.default_rng(0))  # what it draws for its own sake is not used

    def draw(self, tokens: int) -> None:
        self.draws = self._rng.random(tokens)

    def choose(self, c: int, ids: Ints, start: int, stop: int) -> Ints:
        from models.mechanisms.random_eviction import sample

        budget = int(self.memory.budget[c])
        tokens = np.empty((1, min(stop, budget) + 1), dtype=np.int64)
        tokens[0, : len(ids)] = ids
        sample(self.draws, start, stop, self.memory.budget[c : c + 1], tokens)
        return tokens[0, : min(stop, budget)]
