"""Attention sinks: the first tokens and the newest ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from models.config import MOST
from models.mechanism import Trace, mechanism
from models.reference import arrivals
from models.similarity import Similarities
from models.stream import Stream
from models.token_memory import BudgetConfig, OnlineMemory

if TYPE_CHECKING:
    from models.long.memory import LongMemory
    from models.long.stream import LongStream


class StreamingLLMConfig(BudgetConfig):
    """Attention sinks and a sliding window (StreamingLLM, arXiv 2309.17453, Sec. 3.2)."""

    name: Literal["streaming_llm"] = "streaming_llm"
    sinks: int = Field(
        4, ge=0, le=MOST, description="first tokens always kept; under a budget below sinks + 1 only budget - 1 of them"
    )

    @property
    def kept_sinks(self) -> int:
        """Sinks that the budget leaves room for: a small budget shortens the sink, never the window below one token."""
        return min(self.sinks, max(self.budget - 1, 0))


@mechanism(StreamingLLMConfig)
class StreamingLLM(OnlineMemory[StreamingLLMConfig]):
    """Write O(1), read O(B d). Sinks are ordinary tokens here. Nothing depends on a key, so nothing ties."""

    batch_over: ClassVar[tuple[str, ...]] = ("budget", "sinks")
    compares_tokens: ClassVar[bool] = False
    reads_long: ClassVar[bool] = True

    def update(self, similarities: Similarities, start: int, stop: int) -> None:
        for tokens, config in zip(self.slots.tokens, self.configs, strict=True):
            kept = min(stop, config.budget)
            sinks = min(kept, config.kept_sinks)
            tokens[:sinks] = np.arange(sinks)
            tokens[sinks:kept] = np.arange(stop - (kept - sinks), stop)

    def long(self, stream: LongStream, rng: np.random.Generator) -> LongMemory[Any]:
        from models.long.tokens import LongSinks

        return LongSinks(self, stream, rng)

    @classmethod
    def reference(
        cls, stream: Stream, config: StreamingLLMConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        trace = Trace()
        held: list[int] = []
        for t, phase_ends in arrivals(stream):
            held.append(t)
            if len(held) > config.budget:
                del held[config.kept_sinks]
            trace.count(len(held))
            if phase_ends:
                trace.record(held, stream)
        return trace
