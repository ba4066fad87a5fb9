"""Linear attention: softmax attention with its kernel replaced by a product of features."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from models.config import MechanismConfig
from models.fixed_state import FixedState, one_hot, trace_states
from models.mechanism import Trace, mechanism
from models.reference import unit_keys
from models.stream import Floats, Ints, Stream


class LinearAttentionConfig(MechanismConfig):
    """Linear attention, y = phi(q) S / (phi(q) z) with S and z the sums of phi(k) v and phi(k) (arXiv 2006.16236)."""

    name: Literal["linear_attention"] = "linear_attention"
    feature_map: Literal["elu", "relu", "identity"] = Field(
        "elu",
        description="phi, entry by entry: elu(x) + 1; max(x, 0); or x itself, without z, as its sums may be negative",
    )


@mechanism(LinearAttentionConfig)
class LinearAttention(FixedState[LinearAttentionConfig]):
    """Write O(d), read O(d classes), d rows, each with its entry of z (`identity`: none).

    z scales all classes of a query alike. A query without any feature in common with the keys scores 0 in each class.
    """

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.normaliser = np.zeros(self.rows(stream.dim))

    def features(self, keys: Floats) -> Floats:
        if self.config.feature_map == "elu":
            return np.where(keys > 0.0, keys + 1.0, np.exp(np.minimum(keys, 0.0)))
        return np.maximum(keys, 0.0) if self.config.feature_map == "relu" else keys

    def query_features(self, queries: Floats) -> Floats:
        features = self.features(queries)
        if self.config.feature_map == "identity":
            return features
        totals = (features @ self.normaliser)[:, None]
        normalised: Floats = np.divide(features, totals, out=np.zeros_like(features), where=totals > 0.0)
        return normalised

    def update(self, features: Floats, values: Ints) -> None:
        self.states += features.T @ self.targets(values)
        self.normaliser += features.sum(axis=0)

    def row_metadata(self, dim: int) -> int:
        """An entry of z."""
        return 0 if self.config.feature_map == "identity" else 1

    @classmethod
    def reference(
        cls, stream: Stream, config: LinearAttentionConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        def feature(x: float) -> float:
            if config.feature_map == "elu":
                return x + 1.0 if x > 0.0 else math.exp(x)
            return max(x, 0.0) if config.feature_map == "relu" else x

        def states() -> Iterator[Floats]:
            state = np.zeros((stream.dim, stream.classes))
            for key, value in zip(unit_keys(stream, dtype), one_hot(stream), strict=True):
                state = state + np.outer([feature(x) for x in key], value)
                yield state

        return trace_states(stream, states())
