"""Fresh keys: continuous data, in which nothing ever returns."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from models.stream import Phase, Stream
from tasks.checkpoints import Checkpoints, checkpoints
from tasks.keys import Dim, QueryNoise, noisy, random_keys
from tasks.seeds import generator
from tasks.workload import Workload, WorkloadConfig, workload


class FreshKeysConfig(WorkloadConfig):
    """Every token a fresh direction, uniform on the sphere, with a class of its own draw.

    On such data a rule with a fixed threshold saturates at a packing number of the sphere; growth like α ln N (arXiv
    2607.09889, §2) comes from the Chinese restaurant process alone.
    """

    name: Literal["fresh_keys"] = "fresh_keys"
    events: int = Field(10_000, ge=1, description="tokens of the stream")
    checkpoints: Checkpoints = 8
    asks: int = Field(100, ge=1, description="queries at each checkpoint, for tokens drawn from those so far")
    classes: int = Field(16, ge=1, description="classes a value is drawn from, uniformly")
    dim: Dim = 4
    query_noise: QueryNoise = 0.0


@workload(FreshKeysConfig)
class FreshKeys(Workload[FreshKeysConfig]):
    """Each checkpoint asks for some of the tokens so far; all count for `recall`. Every token is its own item."""

    def stream(self, seed: int, episode: int) -> Stream:
        config = self.config
        rng = generator(seed, "stream", episode)
        keys = random_keys(config.events, config.dim, rng)
        values = rng.integers(config.classes, size=config.events)

        rng = generator(seed, "queries", episode)
        ends = checkpoints(config.events, config.checkpoints)
        asked = [np.sort(rng.choice(end, size=min(config.asks, end), replace=False)) for end in ends]
        phases = tuple(
            Phase(end, noisy(keys[some], config.query_noise, rng), values[some], some, np.arange(len(some)))
            for end, some in zip(ends, asked, strict=True)
        )
        return Stream(keys, values, np.arange(config.events), phases, config.classes, chance=1.0 / config.classes)

    @classmethod
    def tokens(cls, config: FreshKeysConfig) -> int:
        return config.events
