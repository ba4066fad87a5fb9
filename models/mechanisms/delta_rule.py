"""The delta rule: write only what the state does not yet predict."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.config import MechanismConfig
from models.delta import DeltaState, reference_delta
from models.mechanism import Trace, mechanism
from models.stream import Stream


class DeltaRuleConfig(MechanismConfig):
    """Delta rule, S += beta k (v - k S) (Widrow and Hoff; as a fast-weight memory arXiv 2102.11174, Eq. 24).

    It is one step of gradient descent on |v - k S|^2 of rate beta / 2: a linear Titans memory (arXiv 2501.00663)
    without momentum and forgetting.
    """

    name: Literal["delta_rule"] = "delta_rule"
    beta: float = Field(
        0.5, gt=0.0, le=2.0, description="share of the error that a write corrects: 1 all of it, above 1 more than all"
    )


@mechanism(DeltaRuleConfig)
class DeltaRule(DeltaState[DeltaRuleConfig]):
    """Write O(d classes), read O(d classes), d rows."""

    batch_over: ClassVar[tuple[str, ...]] = ("beta",)

    def rates(self, config: DeltaRuleConfig) -> tuple[float, float]:
        return 1.0, config.beta

    @classmethod
    def reference(
        cls, stream: Stream, config: DeltaRuleConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        return reference_delta(stream, 1.0, config.beta, dtype)
