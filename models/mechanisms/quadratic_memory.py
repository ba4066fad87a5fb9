"""Quadratic memory: a fixed state over products of pairs of key entries."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from models.config import MechanismConfig
from models.fixed_state import RidgeState, one_hot, reference_ridge, trace_states
from models.mechanism import Trace, mechanism
from models.reference import unit_keys
from models.stream import Floats, Stream


class QuadraticMemoryConfig(MechanismConfig):
    """Linear attention whose features are all products of two key entries, so that phi(q) phi(k) = cos(q, k)^2.

    The second-order term of the Taylor feature map of Based (arXiv 2402.18668, Sec. 4.1): d (d + 1) / 2 rows.
    """

    name: Literal["quadratic_memory"] = "quadratic_memory"
    ridge: float | None = Field(
        None,
        ge=1e-6,
        le=1e6,
        description="none: a plain sum of phi(k) v; a number: the ridge-optimal state, with that weight of |S|^2",
    )


@mechanism(QuadraticMemoryConfig)
class QuadraticMemory(RidgeState[QuadraticMemoryConfig]):
    """Write O(d^2), read O(d^2 classes). With a ridge each row has a row of (K'K) of its own; writes take O(d^4).

    The sign of a cosine is lost. Dividing by the sum of the cos^2, as linear attention does, scales all classes alike
    and changes no answer, so it is not done and nothing is kept for it.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("ridge",)

    @classmethod
    def group_key(cls, config: MechanismConfig) -> tuple[Any, ...]:
        """Configs with equal keys run as one group; a plain sum apart, as it keeps less a row."""
        return (getattr(config, "ridge", None) is None, *super().group_key(config))

    def rows(self, dim: int) -> int:
        return dim * (dim + 1) // 2

    def features(self, keys: Floats) -> Floats:
        left, right = np.triu_indices(keys.shape[1])
        products: Floats = keys[:, left] * keys[:, right] * np.where(left == right, 1.0, math.sqrt(2.0))
        return products

    def penalty(self, config: QuadraticMemoryConfig) -> float | None:
        return config.ridge

    @classmethod
    def reference(
        cls, stream: Stream, config: QuadraticMemoryConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        pairs = [(i, j) for i in range(stream.dim) for j in range(i, stream.dim)]
        features = np.array(
            [
                [key[i] * key[j] * (1.0 if i == j else math.sqrt(2.0)) for i, j in pairs]
                for key in unit_keys(stream, dtype)
            ]
        )
        if config.ridge is not None:
            return trace_states(stream, reference_ridge(features, one_hot(stream), config.ridge))
        return trace_states(stream, accumulate(map(np.outer, features, one_hot(stream))))
