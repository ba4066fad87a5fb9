"""Ridge memory: the best state that a linear read of the keys can have."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.config import MechanismConfig
from models.fixed_state import RidgeState, one_hot, reference_ridge, trace_states
from models.mechanism import Trace, mechanism
from models.reference import unit_keys
from models.stream import Stream


class RidgeMemoryConfig(MechanismConfig):
    """Ridge regression from keys to one-hot values, S = (K'K + ridge I)^-1 K'V: the linear upper bound.

    Token by token it is recursive least squares, and the exact update of a Kanerva machine (arXiv 1804.01756).
    """

    name: Literal["ridge_memory"] = "ridge_memory"
    ridge: float = Field(
        1.0, ge=1e-6, le=1e6, description="weight of the squared state against the squared errors of all tokens"
    )


@mechanism(RidgeMemoryConfig)
class RidgeMemory(RidgeState[RidgeMemoryConfig]):
    """Write O(d^2), read O(d classes), d rows, each with a row of the d x d matrix K'K."""

    batch_over: ClassVar[tuple[str, ...]] = ("ridge",)

    def penalty(self, config: RidgeMemoryConfig) -> float:
        return config.ridge

    @classmethod
    def reference(
        cls, stream: Stream, config: RidgeMemoryConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        return trace_states(stream, reference_ridge(unit_keys(stream, dtype), one_hot(stream), config.ridge))
