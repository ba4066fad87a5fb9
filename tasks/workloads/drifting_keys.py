"""Drifting keys: items change a little each time they return."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from models.stream import Ints, Stream
from tasks.asking import asked_at_the_end
from tasks.keys import Dim, Noise, QueryNoise, noisy, random_keys
from tasks.seeds import generator
from tasks.workload import Workload, WorkloadConfig, workload


class DriftingKeysConfig(WorkloadConfig):
    """Associative recall in which an item's base key takes a random step before each return.

    After n returns its cosine with the first base key is about (1 + drift²)^(-n/2): where a slot keeps the key of the
    first occurrence, a late occurrence opens a slot of its own.
    """

    name: Literal["drifting_keys"] = "drifting_keys"
    items: int = Field(64, ge=1, description="distinct items K")
    repeats: int = Field(4, ge=1, description="tokens of each item")
    drift: float = Field(
        0.3, ge=0.0, description="expected length of a step: normalise(base + drift · randn / √dim) at each return"
    )
    classes: int = Field(16, ge=1, description="classes a value is drawn from, uniformly")
    dim: Dim = 32
    noise: Noise = 0.3
    query_noise: QueryNoise = 0.0


@workload(DriftingKeysConfig)
class DriftingKeys(Workload[DriftingKeysConfig]):
    """One phase at the end, which asks for every item where it is now; `recall` counts one of them, drawn uniformly."""

    def stream(self, seed: int, episode: int) -> Stream:
        config = self.config
        rng = generator(seed, "stream", episode)
        everything = np.arange(config.items)
        walks = [random_keys(config.items, config.dim, rng)]
        for _ in range(1, config.repeats):
            walks.append(noisy(walks[-1], config.drift, rng))
        labels = rng.integers(config.classes, size=config.items)
        items = rng.permutation(np.repeat(everything, config.repeats))
        keys = noisy(np.stack(walks)[returns(items, config.repeats), items], config.noise, rng)
        return asked_at_the_end(
            keys,
            labels[items],
            items,
            asked=everything,
            clean=walks[-1],
            answers=labels,
            classes=config.classes,
            query_noise=config.query_noise,
            seed=seed,
            episode=episode,
        )

    @classmethod
    def tokens(cls, config: DriftingKeysConfig) -> int:
        return config.items * config.repeats


def returns(items: Ints, repeats: int) -> Ints:
    """How often each token's item has occurred before it [L], where every item occurs `repeats` times."""
    before = np.empty(len(items), dtype=np.int64)
    before[np.argsort(items, kind="stable")] = np.tile(np.arange(repeats), len(items) // repeats)
    return before
