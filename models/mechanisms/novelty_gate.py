"""The two-parameter novelty gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from models.gates import Gate, MaskConfig, task_loss
from models.mechanism import mechanism
from models.stream import Floats, Stream
from models.trained import Fitted, Init, Parameters, Streams
from models.training import Draws, Examples, Tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


class NoveltyGateConfig(MaskConfig):
    """Gate sigmoid(a · (nov - b)) on a token's novelty, a and b learned (arXiv 2607.09889, §3.1.4)."""

    name: Literal["novelty_gate"] = "novelty_gate"
    slope: float = Field(
        10.0, description="a at the start of training, per unit of novelty; b starts anywhere between 0 and 1"
    )


@mechanism(NoveltyGateConfig)
class NoveltyGate(Gate[NoveltyGateConfig]):
    """Which tokens are the top M depends on the sign of a alone, as g rises with novelty; b matters to g > 0.5."""

    own_metrics = (*Gate.own_metrics, "gate_a", "gate_b")

    @classmethod
    def start_parameters(cls, config: NoveltyGateConfig, rng: np.random.Generator, stream: Stream) -> Parameters:
        return {"a": np.full(1, config.slope, dtype=np.float32), "b": rng.random(1, dtype=np.float32)}

    @classmethod
    def logits(cls, config: NoveltyGateConfig, parameters: Tensors, keys: Tensor, novelties: Tensor) -> Tensor:
        a, b = (parameters[name][..., None] for name in ("a", "b"))
        return a * (novelties - b)

    @classmethod
    def loss(cls, config: NoveltyGateConfig, examples: Examples, logits: Tensor, draws: Draws) -> Tensors:
        return task_loss(config, examples, logits, draws)

    @classmethod
    def plain_logit(
        cls, config: NoveltyGateConfig, parameters: dict[str, Floats], key: Floats, novelty: float
    ) -> float:
        return float(parameters["a"][0] * (novelty - parameters["b"][0]))

    @classmethod
    def fit(cls, config: NoveltyGateConfig, seeds: Sequence[int], streams: Streams, init: Init) -> list[Fitted]:
        learned = super().fit(config, seeds, streams, init)
        for fitted in learned:
            fitted.metrics.update({f"gate_{name}": float(fitted.parameters[name][0]) for name in ("a", "b")})
        return learned
