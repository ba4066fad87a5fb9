"""Keys of synthetic items: random directions, and noisy occurrences of them."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from models.stream import Floats, unit

Dim = Annotated[int, Field(ge=1, description="width d of a key")]

Noise = Annotated[
    float,
    Field(
        ge=0.0,
        description="expected length of the noise on a token's key: normalise(base + noise · randn / √dim), |base| = 1",
    ),
]

QueryNoise = Annotated[
    float, Field(ge=0.0, description="the same on a query's key; 0 asks with the clean base key and changes no token")
]


def random_keys(count: int, dim: int, rng: np.random.Generator) -> Floats:
    """`count` independent directions [count, dim], uniform on the unit sphere."""
    return unit(rng.standard_normal((count, dim)))


def noisy(base: Floats, noise: float, rng: np.random.Generator) -> Floats:
    """normalise(base + noise · randn / √d) for each row of `base` [n, d]: `noise` is the expected length of the noise.

    Nothing is drawn where `noise` is 0 (arXiv 2607.09889, §3.1: repeats of an item are noisy copies of one key).
    """
    if noise == 0.0:
        return base
    keys = rng.standard_normal(base.shape)
    keys *= noise / np.sqrt(base.shape[1])
    keys += base
    return unit(keys)
