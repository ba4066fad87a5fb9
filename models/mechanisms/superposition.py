"""Superposition: all associations summed into one matrix, older ones fading or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.config import MechanismConfig
from models.fixed_state import FixedState, one_hot, trace_states
from models.mechanism import Trace, mechanism
from models.reference import unit_keys
from models.stream import Floats, Ints, Stream


class SuperpositionConfig(MechanismConfig):
    """Linear superposition, S = decay S + k v: what arXiv 2607.09889, Sec. 3.1.1 sets against the cache as an SSM.

    A diagonal state-space model with a bilinear read reduces to it; its state dimension is the key's width.
    """

    name: Literal["superposition"] = "superposition"
    decay: float = Field(1.0, gt=0.0, le=1.0, description="factor on the state at each token; 1 never forgets")


@mechanism(SuperpositionConfig)
class Superposition(FixedState[SuperpositionConfig]):
    """Write O(d), read O(d classes), d rows. What was written before fades to nothing after about 20 / (1 - decay)."""

    batch_over: ClassVar[tuple[str, ...]] = ("decay",)

    def update(self, features: Floats, values: Ints) -> None:
        targets, ages = self.targets(values), np.arange(len(values))[::-1, None]
        for c, config in enumerate(self.configs):
            fresh = features.T @ (config.decay**ages * targets)
            self.states[c] = config.decay ** len(values) * self.states[c] + fresh

    @classmethod
    def reference(
        cls, stream: Stream, config: SuperpositionConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        def states() -> Iterator[Floats]:
            state = np.zeros((stream.dim, stream.classes))
            for key, value in zip(unit_keys(stream, dtype), one_hot(stream), strict=True):
                state = config.decay * state + np.outer(key, value)
                yield state

        return trace_states(stream, states())
