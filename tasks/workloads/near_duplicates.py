"""Near duplicates: items of different class whose keys are almost the same."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from models.stream import Floats, Stream
from tasks.asking import asked_at_the_end
from tasks.keys import Dim, Noise, QueryNoise, noisy
from tasks.seeds import generator
from tasks.workload import Workload, WorkloadConfig, workload


class NearDuplicatesConfig(WorkloadConfig):
    """Families of items whose base keys have one given cosine with each other; classes are independent.

    Where a rule that merges keys of similarity s must fail: at s below `cosine` the members of a family share a slot.
    """

    name: Literal["near_duplicates"] = "near_duplicates"
    items: int = Field(64, ge=1, description="distinct items K, a multiple of `twins`")
    twins: int = Field(2, ge=1, description="items in a family")
    cosine: float = Field(0.8, ge=0.0, le=1.0, description="cosine between the base keys of two items of a family")
    repeats: int = Field(4, ge=1, description="tokens of each item")
    classes: int = Field(16, ge=1, description="classes a value is drawn from, uniformly")
    dim: Dim = 32
    noise: Noise = 0.3
    query_noise: QueryNoise = 0.0

    @model_validator(mode="after")
    def _families_fit(self) -> NearDuplicatesConfig:
        if self.items % self.twins:
            raise ValueError(f"{self.items} items are no whole number of families of {self.twins} twins")
        if self.dim <= self.twins:
            raise ValueError(f"{self.twins} twins need keys wider than that; dim is {self.dim}")
        return self


@workload(NearDuplicatesConfig)
class NearDuplicates(Workload[NearDuplicatesConfig]):
    """One phase at the end, which asks for every item; `recall` counts one of them, drawn uniformly."""

    def stream(self, seed: int, episode: int) -> Stream:
        config = self.config
        rng = generator(seed, "stream", episode)
        everything = np.arange(config.items)
        base = family_keys(config.items // config.twins, config.twins, config.cosine, config.dim, rng)
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
    def tokens(cls, config: NearDuplicatesConfig) -> int:
        return config.items * config.repeats


def family_keys(families: int, twins: int, cosine: float, dim: int, rng: np.random.Generator) -> Floats:
    """Unit keys [families * twins, dim], family by family, with the given cosine within each.

    √cosine of a direction common to the family, and √(1-cosine) of one that is the twin's own, all of them orthogonal.
    """
    q, r = np.linalg.qr(rng.standard_normal((families, dim, twins + 1)))
    signs = np.copysign(1.0, np.einsum("fii->fi", r))  # QR alone prefers some directions; with r_ii > 0 q is uniform
    directions = (q * signs[:, None, :]).transpose(0, 2, 1)
    keys: Floats = np.sqrt(cosine) * directions[:, :1] + np.sqrt(1.0 - cosine) * directions[:, 1:]
    return keys.reshape(families * twins, dim)
