"""S4D: a trained state-space model with a diagonal, time-invariant transition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from models.layers import dense, linear, zeros
from models.mechanism import mechanism
from models.networks.network import Network
from models.networks.scan import fading
from models.stream import Floats, Ints, Stream
from models.trained import Parameters
from models.training import MOST_STEPS, Tensors, TrainingConfig

if TYPE_CHECKING:
    from torch import Tensor

HIDDEN = 64
"""Hidden units of the readout that sees state and query side by side."""


class S4DConfig(TrainingConfig):
    """Trained diagonal state-space model: A = -1/2 + iπn at the start, zero-order hold (S4D-Lin, arXiv 2206.11893)."""

    name: Literal["s4d"] = "s4d"
    steps: int = Field(600, ge=0, le=MOST_STEPS, description="steps of gradient descent")
    learning_rate: float = Field(0.1, gt=0.0, le=10.0, description="Adam's rate at the first step")
    state: int = Field(32, ge=1, le=4096, description="modes N of the state: what the paper counts as slots")
    channels: int = Field(32, ge=1, le=4096, description="channels H: the width of what a mode holds")
    largest_step: float = Field(
        1e-3,
        gt=0.0,
        le=1.0,
        description="time steps Δ start log-uniform between a hundredth of this and this; the field's 0.1 forgets and "
        "rotates so fast that streams of a few hundred tokens are hardly recalled",
    )
    readout: Literal["bilinear", "concatenated"] = Field(
        "bilinear",
        description="bilinear: keys weight what modes take in and queries what is read from them, so that content can "
        "be looked up; concatenated: a perceptron on output and query, as without the cache (chance)",
    )


@mechanism(S4DConfig)
class S4D(Network[S4DConfig]):
    """h = Ā h + B̄ u for each mode and channel; read O(N H), whatever the length of the stream."""

    @classmethod
    def start_parameters(cls, config: S4DConfig, rng: np.random.Generator, stream: Stream) -> Parameters:
        modes, channels = config.state, config.channels
        parameters = {
            "log_decay": np.full(modes, np.log(0.5), dtype=np.float32),
            "frequency": (np.pi * np.arange(modes)).astype(np.float32),
            "log_step": rng.uniform(np.log(1e-2), 0.0, modes).astype(np.float32)
            + np.float32(np.log(config.largest_step)),
        }
        if config.readout == "bilinear":
            return parameters | {
                "key": dense(rng, stream.dim, modes),
                "value": dense(rng, stream.classes, channels),
                "query": dense(rng, stream.dim, 2 * modes),
                "readout": dense(rng, channels, stream.classes),
                "bias": zeros(stream.classes),
            }
        return parameters | {
            "token": dense(rng, stream.dim + stream.classes, channels),
            "output": dense(rng, 2 * modes, channels),
            "hidden": dense(rng, channels + stream.dim, HIDDEN),
            "hidden_bias": zeros(HIDDEN),
            "readout": dense(rng, HIDDEN, stream.classes),
            "bias": zeros(stream.classes),
        }

    @classmethod
    def remember(cls, config: S4DConfig, parameters: Tensors, keys: Tensor, values: Tensor) -> Tensors:
        import torch

        real, imaginary = (kernel[:, None] for kernel in cls.kernel(parameters, keys.shape[2]))
        if config.readout == "bilinear":
            taken = linear(keys, parameters["key"])
            real, imaginary = real * taken, imaginary * taken
            inputs = linear(values, parameters["value"])
        else:
            inputs = linear(torch.cat([keys, values], 3), parameters["token"])
        return {"real": real.mT @ inputs, "imaginary": imaginary.mT @ inputs}

    @classmethod
    def kernel(cls, parameters: Tensors, length: int) -> tuple[Tensor, Tensor]:
        """Ā^(L-1-t) B̄, real and imaginary parts [S, L, N]: how much of each token a mode still holds at the end."""
        import torch

        step, decay = (parameters[name].exp()[:, None] for name in ("log_step", "log_decay"))
        frequency = parameters["frequency"][:, None]
        shrink, turn = -decay * step, frequency * step
        real = shrink.expm1() * turn.cos() - 2.0 * (0.5 * turn).sin().square()
        imaginary = shrink.exp() * turn.sin()
        norm = decay.square() + frequency.square()
        gain = (imaginary * frequency - real * decay) / norm, -(imaginary * decay + real * frequency) / norm
        ages = torch.arange(length - 1, -1, -1, device=step.device, dtype=step.dtype)[:, None]
        size = fading(shrink * ages)
        real, imaginary = size * (turn * ages).cos(), size * (turn * ages).sin()
        return real * gain[0] - imaginary * gain[1], real * gain[1] + imaginary * gain[0]

    @classmethod
    def recall(cls, config: S4DConfig, parameters: Tensors, memory: Tensors, queries: Tensor) -> Tensor:
        import torch

        if config.readout == "bilinear":
            read = linear(queries, parameters["query"])
            y = read @ torch.cat([memory["real"], -memory["imaginary"]], 2)
        else:
            state = torch.cat([memory["real"], -memory["imaginary"]], 2)
            output = (state * parameters["output"][:, None]).sum(2)[:, :, None]
            x = torch.cat([output.expand(-1, -1, queries.shape[2], -1), queries], 3)
            y = linear(x, parameters["hidden"], parameters["hidden_bias"]).relu()
        return linear(y, parameters["readout"], parameters["bias"])

    @classmethod
    def plain_scores(
        cls, config: S4DConfig, parameters: dict[str, Floats], keys: Floats, values: Floats, queries: Floats
    ) -> Floats:
        p = parameters
        a = (-np.exp(p["log_decay"]) + 1j * p["frequency"])[:, None]
        transition = np.exp(a * np.exp(p["log_step"])[:, None])
        gain = (transition - 1.0) / a
        h = np.zeros((config.state, config.channels), dtype=np.complex128)
        for key, value in zip(keys, values, strict=True):
            if config.readout == "bilinear":
                h = transition * h + gain * np.outer(key @ p["key"], value @ p["value"])
            else:
                h = transition * h + gain * (np.concatenate([key, value]) @ p["token"])
        if config.readout == "bilinear":
            weights = queries @ p["query"]
            y = ((weights[:, : config.state] + 1j * weights[:, config.state :]) @ h).real
        else:
            output = ((p["output"][: config.state] + 1j * p["output"][config.state :]) * h).real.sum(axis=0)
            x = np.concatenate([np.tile(output, (len(queries), 1)), queries], axis=1)
            y = np.maximum(x @ p["hidden"] + p["hidden_bias"], 0.0)
        scores: Floats = y @ p["readout"] + p["bias"]
        return scores

    def slots(self) -> int:
        return self.config.state

    def slots_over_time(self) -> Ints:
        return np.full(self.length, self.config.state)
