"""Random token ids, of which nothing can be learned: for measuring what sequence models cost."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from tasks.seeds import generator
from tasks.sequences import DrawnWorkload, Purpose, Reader, TokenBatch, score
from tasks.workload import WorkloadConfig, workload


class RandomTokensConfig(WorkloadConfig):
    """Ids drawn uniformly, each position scored: for times, memory and arithmetic (arXiv 2606.05175, throughput)."""

    name: Literal["random_tokens"] = "random_tokens"
    vocabulary: int = Field(259, ge=2, le=1 << 20, description="ids are 0 .. vocabulary - 1; 259: bytes and 3 marks")
    length: int = Field(128, ge=1, le=1 << 20, description="ids of a sequence")


@workload(RandomTokensConfig)
class RandomTokens(DrawnWorkload[RandomTokensConfig]):
    """The best loss is ln(vocabulary), which a model starts near."""

    own_metrics = ("loss",)

    @property
    def vocabulary(self) -> int:
        return self.config.vocabulary

    def draws(self, seed: int, purpose: Purpose) -> np.random.Generator:
        return generator(seed, purpose)

    def evaluate(self, reader: Reader, seed: int, episodes: int) -> dict[str, float]:
        return {"loss": score(reader, self.evaluation(seed, episodes)).loss}

    def batch(self, draws: np.random.Generator, count: int, length: int) -> TokenBatch:
        ids = draws.integers(self.vocabulary, size=(count, length + 1))
        return TokenBatch(np.ascontiguousarray(ids[:, :-1]), np.ascontiguousarray(ids[:, 1:]))

    @classmethod
    def tokens(cls, config: RandomTokensConfig) -> int:
        return config.length
