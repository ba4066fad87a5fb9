"""Sliding window: the newest tokens."""

from __future__ import annotations

from collections import deque
from typing import ClassVar, Literal

import numpy as np

from models.mechanism import Trace, mechanism
from models.reference import arrivals
from models.similarity import Similarities
from models.stream import Stream
from models.token_memory import BudgetConfig, OnlineMemory


class RecencyConfig(BudgetConfig):
    """First in, first out: the last `budget` tokens (arXiv 2607.09889, Sec. 3.1.1)."""

    name: Literal["recency"] = "recency"


@mechanism(RecencyConfig)
class Recency(OnlineMemory[RecencyConfig]):
    """Write O(1), read O(B d). Nothing depends on a key, so nothing ties."""

    compares_tokens: ClassVar[bool] = False

    def update(self, similarities: Similarities, start: int, stop: int) -> None:
        for tokens, budget in zip(self.slots.tokens, self.budget, strict=True):
            kept = min(stop, budget)
            tokens[:kept] = np.arange(stop - kept, stop)

    @classmethod
    def reference(
        cls, stream: Stream, config: RecencyConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        trace = Trace()
        window: deque[int] = deque(maxlen=config.budget)
        for t, phase_ends in arrivals(stream):
            window.append(t)
            trace.count(len(window))
            if phase_ends:
                trace.record(window, stream)
        return trace
