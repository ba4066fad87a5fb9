"""Sliding window: the newest tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from models.mechanism import Trace, mechanism
from models.reference import keep_newest
from models.similarity import Similarities
from models.stream import Stream
from models.token_memory import BudgetConfig, BudgetMemory

if TYPE_CHECKING:
    from models.long.memory import LongMemory
    from models.long.stream import LongStream


class RecencyConfig(BudgetConfig):
    """First in, first out: the last `budget` tokens (arXiv 2607.09889, Sec. 3.1.1)."""

    name: Literal["recency"] = "recency"


@mechanism(RecencyConfig)
class Recency(BudgetMemory[RecencyConfig]):
    """Write O(1), read O(B d). Nothing depends on a key, so nothing ties."""

    compares_tokens: ClassVar[bool] = False
    reads_long: ClassVar[bool] = True

    def capacity(self, config: RecencyConfig, length: int) -> int:
        return min(config.budget, length)

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        self.slide(self.budget, start, stop)

    def long(self, stream: LongStream, rng: np.random.Generator) -> LongMemory[Any]:
        from models.long.tokens import LongRecency

        return LongRecency(self, stream, rng)

    @classmethod
    def reference(
        cls, stream: Stream, config: RecencyConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        return keep_newest(stream, config.budget)
