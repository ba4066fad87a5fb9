"""Random token ids, of which nothing can be learned: for measuring what sequence models cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from tasks.seeds import generator
from tasks.sequences import EVALUATED_AT_ONCE, Reader, SequenceWorkload, TokenBatch, score
from tasks.workload import WorkloadConfig, workload


class RandomTokensConfig(WorkloadConfig):
    """Ids drawn uniformly, each position scored: for times, memory and arithmetic (arXiv 2606.05175, throughput)."""

    name: Literal["random_tokens"] = "random_tokens"
    vocabulary: int = Field(259, ge=2, le=1 << 20, description="ids are 0 .. vocabulary - 1; 259: bytes and 3 marks")
    length: int = Field(128, ge=1, le=1 << 20, description="ids of a sequence")


@workload(RandomTokensConfig)
class RandomTokens(SequenceWorkload[RandomTokensConfig]):
    """The best loss is ln(vocabulary), which a model starts near."""

    own_metrics = ("loss",)

    @property
    def vocabulary(self) -> int:
        return self.config.vocabulary

    @property
    def length(self) -> int:
        return self.config.length

    def training(self, seed: int, sizes: Iterable[tuple[int, int]]) -> Iterator[TokenBatch]:
        draws = generator(seed, "training")
        for count, length in sizes:
            yield self._batch(draws, count, length)

    def evaluation(self, seed: int, episodes: int) -> Iterator[TokenBatch]:
        draws = generator(seed, "evaluation")
        for first in range(0, episodes, EVALUATED_AT_ONCE):
            yield self._batch(draws, min(EVALUATED_AT_ONCE, episodes - first), self.length)

    def evaluate(self, reader: Reader, seed: int, episodes: int) -> dict[str, float]:
        return {"loss": score(reader, self.evaluation(seed, episodes)).loss}

    def _batch(self, rng: np.random.Generator, count: int, length: int) -> TokenBatch:
        ids = rng.integers(self.vocabulary, size=(count, length + 1))
        return TokenBatch(np.ascontiguousarray(ids[:, :-1]), np.ascontiguousarray(ids[:, 1:]))

    @classmethod
    def tokens(cls, config: RandomTokensConfig) -> int:
        return config.length
