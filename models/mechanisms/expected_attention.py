"""Expected attention: keep what queries like those seen will attend to."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.config import MOST, ReadTemperature, Temperature
from models.mechanism import mechanism
from models.phase_memory import PhaseMemory
from models.stream import Floats
from models.token_memory import BudgetConfig


class ExpectedAttentionConfig(BudgetConfig):
    """Keep the keys of largest expected attention from Gaussian queries (arXiv 2510.00636, Sec. 3).

    Kept: E exp(q k / theta) = exp(m k / theta + k S k / (2 theta^2)) with mean m and covariance S of the queries, and
    the first tokens, which always stay and do not count for m and S. Replaced: queries by the keys held, as in
    `snapkv`; and keys by their directions, also where a captured layer has lengths, so that one which draws attention
    by its length alone does not stand out. Left out: rotary positions, of which there are none, the mean over grouped
    heads, norms of values, which are 1 for classes, and compression in the midst of decoding.
    """

    name: Literal["expected_attention"] = "expected_attention"
    sinks: int = Field(
        4, ge=0, le=MOST, description="first tokens always kept, in tokens; the budget goes to them first"
    )
    temperature: Temperature = Field(
        0.13,
        description="softmax temperature theta of the scores, in units of cosine (1/sqrt(d) is 0.125 at d = 64)",
    )
    read_temperature: ReadTemperature = Field(
        0.05, description="softmax temperature of the read, in units of cosine; `argmax` reads the single best slot"
    )

    @property
    def reading(self) -> ReadTemperature:
        """The temperature at which the slots are read."""
        return self.read_temperature


@mechanism(ExpectedAttentionConfig)
class ExpectedAttention(PhaseMemory[ExpectedAttentionConfig]):
    """Write O(1), compress O(N d^2), read O(B d); everything is held until a phase ends, so the peak is N slots.

    Ties: the oldest slot stays; scores below e^-745 of the largest tie. Scores are computed, not stored.
    """

    compares_tokens: ClassVar[bool] = False

    @classmethod
    def sinks(cls, config: ExpectedAttentionConfig) -> int:
        return config.sinks

    @classmethod
    def scores(cls, keys: Floats, config: ExpectedAttentionConfig) -> Floats:
        mean = keys.mean(axis=0)
        spread = keys - mean
        covariance = spread.T @ spread / len(keys)
        logits = keys @ mean / config.temperature
        logits += np.einsum("ij,ij->i", keys @ covariance, keys) / (2.0 * config.temperature**2)
        numerators: Floats = np.exp(logits - logits.max())
        return numerators

    @classmethod
    def reference_scores(cls, keys: Floats, config: ExpectedAttentionConfig) -> list[float]:
        queries, theta = keys, config.temperature
        mean = sum(queries) / len(queries)
        logits = []
        for key in keys:
            variance = math.fsum(float((query - mean) @ key) ** 2 for query in queries) / len(queries)
            logits.append(float(mean @ key) / theta + variance / (2.0 * theta**2))
        return [math.exp(logit - max(logits)) for logit in logits]
