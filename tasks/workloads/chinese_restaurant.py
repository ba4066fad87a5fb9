"""Chinese restaurant: the Dirichlet process itself, whose number of items grows with the logarithm of time."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from models.stream import Ints, Phase, Stream
from tasks.checkpoints import Checkpoints, checkpoints
from tasks.keys import Dim, Noise, QueryNoise, noisy, random_keys
from tasks.seeds import generator
from tasks.workload import Workload, WorkloadConfig, workload


class ChineseRestaurantConfig(WorkloadConfig):
    """A token is a new item, less and less often, or the item of one before it (Antoniak 1974; arXiv 2607.09889, §2).

    Token i (from 0) is a new item with probability α/(α+i), else the item of a token drawn from those before it. The
    expected number of items among N tokens is α(ψ(α+N) - ψ(α)) ≈ α ln(1 + N/α).
    """

    name: Literal["chinese_restaurant"] = "chinese_restaurant"
    alpha: float = Field(10.0, gt=0.0, description="concentration α: new items per unit of log time")
    events: int = Field(10_000, ge=1, description="tokens of the stream")
    checkpoints: Checkpoints = 8
    classes: int = Field(16, ge=1, description="classes a value is drawn from, uniformly")
    dim: Dim = 64
    noise: Noise = 0.3
    query_noise: QueryNoise = 0.0


@workload(ChineseRestaurantConfig)
class ChineseRestaurant(Workload[ChineseRestaurantConfig]):
    """Each checkpoint asks for every item seen so far; all count for `recall`. Items are numbered as they come."""

    def stream(self, seed: int, episode: int) -> Stream:
        config = self.config
        rng = generator(seed, "stream", episode)
        items = seat(config.alpha, config.events, rng)
        count = int(items.max()) + 1
        labels = rng.integers(config.classes, size=count)
        base = random_keys(count, config.dim, rng)
        keys = noisy(base[items], config.noise, rng)

        rng = generator(seed, "queries", episode)
        phases = []
        for end in checkpoints(config.events, config.checkpoints):
            seen = np.arange(items[:end].max() + 1)
            phases.append(Phase(end, noisy(base[seen], config.query_noise, rng), labels[seen], seen, seen))
        return Stream(keys, labels[items], items, tuple(phases), config.classes, chance=1.0 / config.classes)

    @classmethod
    def tokens(cls, config: ChineseRestaurantConfig) -> int:
        return config.events


def seat(alpha: float, events: int, rng: np.random.Generator) -> Ints:
    """The item of each of `events` tokens of a Chinese restaurant process with concentration `alpha`."""
    before = np.arange(events)
    opens = rng.random(events) * (alpha + before) < alpha
    opens[0] = True
    follows = (rng.random(events) * before).astype(np.int64)
    items = (np.cumsum(opens) - 1).tolist()
    for token in np.flatnonzero(~opens).tolist():
        items[token] = items[follows[token]]
    return np.array(items, dtype=np.int64)
