"""Associative recall: every item comes back a fixed number of times, in random order."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from models.stream import Stream
from tasks.asking import asked_at_the_end
from tasks.keys import Dim, Noise, QueryNoise, noisy, random_keys
from tasks.seeds import generator
from tasks.workload import Workload, WorkloadConfig, workload


class AssociativeRecallConfig(WorkloadConfig):
    """K items of random key and class, each written `repeats` times in random order (arXiv 2607.09889, §3.1.1)."""

    name: Literal["associative_recall"] = "associative_recall"
    items: int = Field(64, ge=1, description="distinct items K")
    repeats: int = Field(4, ge=1, description="tokens of each item")
    classes: int = Field(16, ge=1, description="classes a value is drawn from, uniformly")
    dim: Dim = 32
    noise: Noise = 0.3
    query_noise: QueryNoise = 0.0


@workload(AssociativeRecallConfig)
class AssociativeRecall(Workload[AssociativeRecallConfig]):
    """One phase at the end, which asks for every item; `recall` counts one of them, drawn uniformly."""

    def stream(self, seed: int, episode: int) -> Stream:
        config = self.config
        rng = generator(seed, "stream", episode)
        everything = np.arange(config.items)
        base = random_keys(config.items, config.dim, rng)
        labels = rng.integers(config.classes, size=config.items)
        items = rng.permutation(np.repeat(everything, config.repeats))
        keys = noisy(base[items], config.noise, rng)
        return asked_at_the_end(
            keys,
            labels[items],
            items,
            asked=everything,
            clean=base,
            answers=labels,
            classes=config.classes,
            query_noise=config.query_noise,
            seed=seed,
            episode=episode,
        )

    @classmethod
    def tokens(cls, config: AssociativeRecallConfig) -> int:
        return config.items * config.repeats
