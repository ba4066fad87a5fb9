"""SnapKV: at the end of a phase, keep what the last tokens attend to."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
from pydantic import Field

from models.config import MOST, ReadTemperature, Temperature
from models.mechanism import Trace, mechanism
from models.reference import arrivals, attention, top, unit_keys
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream
from models.token_memory import BudgetConfig, BudgetMemory, largest

POOL = 5
"""Width of the average pooling, in tokens."""


class SnapKVConfig(BudgetConfig):
    """Prompt compression by the attention of an observation window (SnapKV, arXiv 2404.14469, Sec. 4.1)."""

    name: Literal["snapkv"] = "snapkv"
    window: int = Field(
        64, ge=1, le=MOST, description="newest tokens that are kept and whose attention scores the rest, in tokens"
    )
    pooling: bool = Field(True, description="average the scores over 5 neighbouring tokens, so that clusters are kept")
    temperature: Temperature = Field(
        0.13,
        description="softmax temperature of the scores, in units of cosine (1/sqrt(d) is 0.125 at d = 64)",
    )
    read_temperature: ReadTemperature = Field(
        0.05, description="softmax temperature of the read, in units of cosine; `argmax` reads the single best slot"
    )

    @property
    def reading(self) -> ReadTemperature:
        """The temperature at which the slots are read."""
        return self.read_temperature


@mechanism(SnapKVConfig)
class SnapKV(BudgetMemory[SnapKVConfig]):
    """Write O(1), compress O(W N d), read O(B d); everything is held until a phase ends, so the peak is N slots.

    Up to `budget` tokens nothing is dropped. A budget within the window keeps the newest tokens. Otherwise the window
    stays, and the `budget` - `window` others that its tokens attend to most. Ties: the oldest slot stays. Scores are
    summed, not stored. The default temperature is that of `h2o`; between 0.05 and 0.15 recall hardly depends on it.
    """

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        self.append(start, stop)

    def settle(self, similarities: Similarities, stop: int) -> None:
        whole = cache(lambda: self.scores(similarities, stop, np.arange(stop)))
        for c, (budget, count) in enumerate(zip(self.budget, self.slots.counts, strict=True)):
            if count <= budget:
                continue
            if budget <= self.config.window:
                self.keep(c, np.arange(count - budget, count))
                continue
            scores = whole() if count == stop else self.scores(similarities, stop, self.slots.tokens[c, :count])
            rest = largest(scores, budget - self.config.window)
            self.keep(c, np.concatenate([rest, np.arange(count - self.config.window, count)]))

    def scores(self, similarities: Similarities, stop: int, held: Ints) -> Floats:
        """Attention of the window, the last of the tokens `held` [n], on the others [n - window], pooled."""
        scores = np.zeros(len(held))
        for start in range(stop - self.config.window, stop, similarities.block_tokens):
            end = min(start + similarities.block_tokens, stop)
            visible = held[held < end]
            weights = similarities.score_weights(self.config.temperature, start, end)[:, visible]
            weights *= visible <= np.arange(start, end)[:, None]
            scores[: len(visible)] += (weights / weights.sum(axis=1, keepdims=True)).sum(axis=0)
        rest = scores[: -self.config.window]
        return np.convolve(rest, np.ones(POOL) / POOL)[POOL // 2 : -(POOL // 2)] if self.config.pooling else rest

    @classmethod
    def reference(cls, stream: Stream, config: SnapKVConfig, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        keys = unit_keys(stream, dtype)
        trace = Trace()
        held: list[int] = []
        for t, phase_ends in arrivals(stream):
            held.append(t)
            trace.count(len(held))
            if not phase_ends:
                continue
            if len(held) > config.budget > config.window:
                rest, window = held[: -config.window], held[-config.window :]
                scores = [0.0] * len(rest)
                for query in window:
                    seen = [token for token in held if token <= query]
                    shares = attention(keys, query, seen, config.temperature)
                    scores = [score + share for score, share in zip(scores, shares, strict=False)]
                if config.pooling:
                    padded = [0.0, 0.0, *scores, 0.0, 0.0]
                    scores = [sum(padded[i : i + POOL]) / POOL for i in range(len(scores))]
                held = [rest[slot] for slot in top(scores, config.budget - config.window, trace)] + window
            else:
                held = held[max(len(held) - config.budget, 0) :]
            trace.record(held, stream)
        return trace
