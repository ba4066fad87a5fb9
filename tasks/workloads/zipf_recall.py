"""Zipf recall: a few items return all the time, most are seen once or never."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from models.stream import Stream
from tasks.asking import asked_at_the_end
from tasks.keys import Dim, Noise, QueryNoise, noisy, random_keys
from tasks.seeds import generator
from tasks.workload import Workload, WorkloadConfig, workload


class ZipfRecallConfig(WorkloadConfig):
    """Items drawn independently with probability ∝ rank^-exponent: a heavy tail, as in real recordings."""

    name: Literal["zipf_recall"] = "zipf_recall"
    items: int = Field(1000, ge=1, description="items that may occur; how many do is up to the draw")
    events: int = Field(4000, ge=1, description="tokens of the stream")
    exponent: float = Field(1.0, ge=0.0, description="steepness of the tail; 0 draws all items alike")
    classes: int = Field(16, ge=1, description="classes a value is drawn from, uniformly")
    dim: Dim = 64
    noise: Noise = 0.3
    query_noise: QueryNoise = 0.0


@workload(ZipfRecallConfig)
class ZipfRecall(Workload[ZipfRecallConfig]):
    """One phase at the end, which asks once for every item seen; `recall` counts one of them, drawn uniformly.

    An item's identity is its rank less 1.
    """

    def __init__(self, config: ZipfRecallConfig) -> None:
        super().__init__(config)
        cumulative = np.cumsum(np.arange(1, config.items + 1, dtype=np.float64) ** -config.exponent)
        self._cumulative = cumulative / cumulative[-1]

    def stream(self, seed: int, episode: int) -> Stream:
        config = self.config
        rng = generator(seed, "stream", episode)
        items = np.searchsorted(self._cumulative, rng.random(config.events), side="right")
        seen, place = np.unique(items, return_inverse=True)
        labels = rng.integers(config.classes, size=len(seen))
        base = random_keys(len(seen), config.dim, rng)
        keys = noisy(base[place], config.noise, rng)
        return asked_at_the_end(
            keys,
            labels[place],
            items,
            asked=seen,
            clean=base,
            answers=labels,
            classes=config.classes,
            query_noise=config.query_noise,
            seed=seed,
            episode=episode,
        )

    @classmethod
    def tokens(cls, config: ZipfRecallConfig) -> int:
        return config.events
