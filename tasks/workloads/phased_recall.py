"""Phased recall: working sets come and go, and each is asked for when its phase ends."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from models.stream import Phase, Stream
from tasks.keys import Dim, Noise, QueryNoise, noisy, random_keys
from tasks.seeds import generator
from tasks.workload import Workload, WorkloadConfig, workload


class PhasedRecallConfig(WorkloadConfig):
    """Phases with working sets of two sizes in turn, small first, of fresh items each (arXiv 2607.09889, §3.2.1).

    A memory of everything holds 36, 216, 252, 432, 468, 648, 684, 864 tokens at the ends of the eight phases published.
    """

    name: Literal["phased_recall"] = "phased_recall"
    phases: int = Field(8, ge=1, description="phases; the first, third, ... have the small working set")
    small: int = Field(6, ge=1, description="items of a small working set")
    large: int = Field(30, ge=1, description="items of a large working set")
    repeats: int = Field(6, ge=1, description="tokens of each item, all in its phase, in random order")
    classes: int = Field(16, ge=1, description="classes a value is drawn from, uniformly")
    dim: Dim = 32
    noise: Noise = 0.3
    query_noise: QueryNoise = 0.0

    def sizes(self) -> list[int]:
        """Items of each phase."""
        return [self.large if phase % 2 else self.small for phase in range(self.phases)]


@workload(PhasedRecallConfig)
class PhasedRecall(Workload[PhasedRecallConfig]):
    """Each phase asks for its own items, and all of them count for `recall`: Table 7 is measured as published.

    Recall is the mean over phases, each weighing the same whatever its working set.
    """

    def stream(self, seed: int, episode: int) -> Stream:
        config = self.config
        sizes = config.sizes()
        rng = generator(seed, "stream", episode)
        base = random_keys(sum(sizes), config.dim, rng)
        labels = rng.integers(config.classes, size=sum(sizes))
        sets = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        items = np.concatenate([rng.permutation(np.repeat(working_set, config.repeats)) for working_set in sets])
        keys = noisy(base[items], config.noise, rng)

        rng = generator(seed, "queries", episode)
        queries = noisy(base, config.query_noise, rng)
        ends = np.cumsum(sizes) * config.repeats
        phases = tuple(
            Phase(int(end), queries[working_set], labels[working_set], working_set, np.arange(len(working_set)))
            for end, working_set in zip(ends, sets, strict=True)
        )
        return Stream(keys, labels[items], items, phases, config.classes, chance=1.0 / config.classes)

    @classmethod
    def tokens(cls, config: PhasedRecallConfig) -> int:
        return sum(config.sizes()) * config.repeats
