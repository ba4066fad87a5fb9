"""Gates that are perceptrons with one hidden layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from pydantic import Field

from models.gates import Gate, GateConfig
from models.layers import dense, linear, zeros
from models.stream import Floats, Stream
from models.trained import Parameters
from models.training import Tensors

if TYPE_CHECKING:
    from torch import Tensor


Inputs = Literal["embedding", "embedding_and_novelty"]


class PerceptronConfig(GateConfig):
    """Options of gates that are perceptrons with one hidden layer."""

    inputs: Inputs = Field("embedding", description="what the gate sees of a token: its key alone, or novelty as well")
    hidden: int = Field(128, ge=1, le=65536, description="hidden units")


P = TypeVar("P", bound=PerceptronConfig)


class PerceptronGate(Gate[P]):
    """g = sigmoid(w₂ · relu(W₁ x + b₁) + b₂)."""

    @classmethod
    def start_parameters(cls, config: P, rng: np.random.Generator, stream: Stream) -> Parameters:
        inputs = stream.dim + (config.inputs == "embedding_and_novelty")
        return {
            "hidden_weights": dense(rng, inputs, config.hidden),
            "hidden_bias": zeros(config.hidden),
            "weights": dense(rng, config.hidden, 1),
            "bias": zeros(1),
        }

    @classmethod
    def logits(cls, config: P, parameters: Tensors, keys: Tensor, novelties: Tensor) -> Tensor:
        import torch

        x = keys if config.inputs == "embedding" else torch.cat([keys, novelties[..., None]], -1)
        x = linear(x, parameters["hidden_weights"], parameters["hidden_bias"]).relu()
        return linear(x, parameters["weights"], parameters["bias"])[..., 0]

    @classmethod
    def plain_logit(cls, config: P, parameters: dict[str, Floats], key: Floats, novelty: float) -> float:
        x = [*key, novelty] if config.inputs == "embedding_and_novelty" else [*key]
        logit = parameters["bias"][0]
        for unit, (bias, weight) in enumerate(zip(parameters["hidden_bias"], parameters["weights"][:, 0], strict=True)):
            active = bias + sum(float(a) * w for a, w in zip(x, parameters["hidden_weights"][:, unit], strict=True))
            logit += weight * max(active, 0.0)
        return float(logit)
