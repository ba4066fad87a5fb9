"""The gated delta rule: the delta rule on a state that fades."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.config import MechanismConfig
from models.delta import DeltaState, reference_delta
from models.mechanism import Trace, mechanism
from models.stream import Stream


class GatedDeltaRuleConfig(MechanismConfig):
    """Gated delta rule, S = alpha (I - beta k k') S + beta k v, with constant gates (arXiv 2412.06464, Eq. 10)."""

    name: Literal["gated_delta_rule"] = "gated_delta_rule"
    alpha: float = Field(0.99, gt=0.0, le=1.0, description="factor on the state at each token; 1 never forgets")
    beta: float = Field(
        0.5, gt=0.0, le=2.0, description="share of the error that a write corrects: 1 all of it, above 1 more than all"
    )


@mechanism(GatedDeltaRuleConfig)
class GatedDeltaRule(DeltaState[GatedDeltaRuleConfig]):
    """Write O(d classes), read O(d classes), d rows. With alpha = 1 it is the delta rule."""

    batch_over: ClassVar[tuple[str, ...]] = ("alpha", "beta")

    def rates(self, config: GatedDeltaRuleConfig) -> tuple[float, float]:
        return config.alpha, config.beta

    @classmethod
    def reference(
        cls, stream: Stream, config: GatedDeltaRuleConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        return reference_delta(stream, config.alpha, config.beta, dtype)
