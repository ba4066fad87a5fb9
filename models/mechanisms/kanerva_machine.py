"""Kanerva machine: a Gaussian memory of a few rows, written by its exact posterior."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.config import MechanismConfig, Temperature
from models.fixed_state import RidgeState, one_hot, trace_states
from models.mechanism import Trace, mechanism
from models.reference import unit_keys
from models.stream import Floats, Stream, unit


class KanervaMachineConfig(MechanismConfig):
    """A memory matrix with a Gaussian posterior over soft addresses (Kanerva machine, arXiv 1804.01756, Sec. 3).

    A token is v = w R + noise with w = softmax(A k / temperature); R starts as 0 with rows of variance 1. Kept: the
    exact update of R and of the covariance U of its rows. Replaced: weights, which there are drawn from a Gaussian
    about a mean that is linear in A and unbounded, by a softmax with a temperature, as in the probe of arXiv
    2607.09889; and the learned A and first R, by random unit keys and 0. Left out: the encoder and the decoder around
    it and the learning of them. The posterior mean is recursive least squares, and ridge regression of v on w.
    """

    name: Literal["kanerva_machine"] = "kanerva_machine"
    size: int = Field(64, ge=1, le=4096, description="rows K of the memory")
    noise: float = Field(0.01, ge=1e-6, le=1e6, description="variance of a value about what its address reads")
    temperature: Temperature = Field(
        0.2, description="softmax temperature of the addressing, in units of cosine with the rows' addresses"
    )


@mechanism(KanervaMachineConfig)
class KanervaMachine(RidgeState[KanervaMachineConfig]):
    """Write O(K d + K^2 + K classes), read O(K d + K classes), K rows, each with its address and a row of U.

    Tokens are summed up and the posterior is solved for at a phase end, which gives the same mean as token by token.
    """

    seed_free: ClassVar[bool] = False
    batch_over: ClassVar[tuple[str, ...]] = ("noise",)

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.addresses = draw_addresses(self.config.size, stream.dim, rng)

    def rows(self, dim: int) -> int:
        return self.config.size

    def features(self, keys: Floats) -> Floats:
        scores = keys @ self.addresses.T / self.config.temperature
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        addressed: Floats = weights / weights.sum(axis=1, keepdims=True)
        return addressed

    def penalty(self, config: KanervaMachineConfig) -> float:
        return config.noise

    def row_metadata(self, dim: int) -> int:
        """A row's address, and its row of the covariance U."""
        return dim + self.config.size

    @classmethod
    def reference(
        cls, stream: Stream, config: KanervaMachineConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        addresses = draw_addresses(config.size, stream.dim, rng)

        def address(key: Floats) -> Floats:
            scores = [math.fsum(key * row) / config.temperature for row in addresses]
            weights = np.array([math.exp(score - max(scores)) for score in scores])
            return np.asarray(weights / math.fsum(weights))

        mean, covariance, means = np.zeros((config.size, stream.classes)), np.eye(config.size), []
        for key, value in zip(unit_keys(stream, dtype), one_hot(stream), strict=True):
            w = address(key)
            surprise = value - w @ mean
            along = covariance @ w
            variance = w @ along + config.noise
            mean = mean + np.outer(along, surprise) / variance
            covariance = covariance - np.outer(along, along) / variance
            means.append(mean)
        trace = trace_states(stream, means)
        trace.query_features = [np.array([*map(address, unit(phase.queries))]) for phase in stream.phases]
        return trace


def draw_addresses(size: int, dim: int, rng: np.random.Generator) -> Floats:
    """Random unit keys [size, dim]."""
    return unit(rng.standard_normal((size, dim)))
