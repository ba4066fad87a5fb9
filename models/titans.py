"""What the Titans memories have in common: the rates of their gradient descent, and its momentum."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import numpy as np
from pydantic import Field

from models.config import MechanismConfig
from models.fixed_state import FixedSize
from models.stream import Stream


class TitansConfig(MechanismConfig):
    """Options of memories that descend the gradient of the squared error of each token."""

    theta: float = Field(0.02, ge=1e-6, le=1.0, description="rate of the descent: how far a token's surprise moves it")
    eta: float = Field(0.5, ge=0.0, lt=1.0, description="momentum: share of the last step that is taken again")
    alpha: float = Field(0.0, ge=0.0, lt=1.0, description="share of the memory forgotten at each token; 0: nothing")


T = TypeVar("T", bound=TitansConfig)


class TitansMemory(FixedSize[T]):
    """M = eta M - theta grad |v - f(k)|^2, then S = (1 - alpha) S + M, token by token, for what f subclasses have.

    rates [C, 3]: theta, eta, alpha; momenta: of the shape of `states`.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("theta", "eta", "alpha")

    @classmethod
    def group_key(cls, config: MechanismConfig) -> tuple[Any, ...]:
        """Configs with equal keys run as one group; those without momentum apart, as they keep less a row."""
        return (getattr(config, "eta", None) == 0.0, *super().group_key(config))

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        """Forget everything."""
        super().start(stream, rng)
        self.momenta = np.zeros_like(self.states)
        self.rates = np.array([[config.theta, config.eta, config.alpha] for config in self.configs])

    def row_metadata(self, dim: int) -> int:
        """A row of the momentum."""
        return self.width() if self.config.eta else 0
