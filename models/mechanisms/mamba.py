"""Mamba: a trained state-space model whose step, input and output matrices depend on the token."""

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


class MambaConfig(TrainingConfig):
    """Trained selective state-space model, one block without its convolution (arXiv 2312.00752, Alg. 2)."""

    name: Literal["mamba"] = "mamba"
    steps: int = Field(600, ge=0, le=MOST_STEPS, description="steps of gradient descent")
    learning_rate: float = Field(0.1, gt=0.0, le=10.0, description="Adam's rate at the first step")
    streams: int = Field(4, ge=1, le=4096, description="streams read at each step, new ones every time")
    state: int = Field(32, ge=1, le=4096, description="state size N: what the paper counts as slots")
    channels: int = Field(32, ge=1, le=4096, description="channels H, each with a state of N numbers")
    largest_step: float = Field(
        1e-2,
        gt=0.0,
        le=1.0,
        description="time steps Δ start log-uniform between a hundredth of this and this, with A = -1: the field's 0.1 "
        "and A = -1, -2, ... -N forget too fast to learn from streams of a few hundred tokens",
    )


@mechanism(MambaConfig)
class Mamba(Network[MambaConfig]):
    """h = exp(Δ A) h + Δ B x with Δ, B, C, x made from the token; a query is a token without value, read through C.

    B weights what a key writes and C what a query reads, so that content can be looked up. Tokens come with key and
    value together, which is what the convolution is for. Read O(N H), whatever the length of the stream.
    """

    @classmethod
    def start_parameters(cls, config: MambaConfig, rng: np.random.Generator, stream: Stream) -> Parameters:
        width, channels = stream.dim + stream.classes, config.channels
        steps = config.largest_step * np.exp(rng.uniform(np.log(1e-2), 0.0, channels))
        return {
            "log_decay": zeros(channels, config.state),
            "step": dense(rng, width, channels),
            "step_bias": np.log(np.expm1(steps)).astype(np.float32),
            "input": dense(rng, width, channels),
            "gate": dense(rng, width, channels),
            "write": dense(rng, width, config.state),
            "read": dense(rng, width, config.state),
            "skip": np.ones(channels, dtype=np.float32),
            "readout": dense(rng, channels, stream.classes),
            "bias": zeros(stream.classes),
        }

    @classmethod
    def remember(cls, config: MambaConfig, parameters: Tensors, keys: Tensor, values: Tensor) -> Tensors:
        """The last state at once: token t is left with exp(A · (sum of the later steps)), whose exponent is <= 0."""
        import torch

        tokens = torch.cat([keys, values], 3)
        step, x, write = cls.selected(parameters, tokens)
        later = step.flip(2).cumsum(2).flip(2) - step
        kept = -(later[..., None] * parameters["log_decay"].exp()[:, None, None])
        return {"state": (fading(kept) * (step * x)[..., None] * write[..., None, :]).sum(2)}

    @classmethod
    def selected(cls, parameters: Tensors, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Step Δ [.., H], input x [.., H] and B [.., N] of `tokens`."""
        import torch

        step = torch.nn.functional.softplus(linear(tokens, parameters["step"], parameters["step_bias"]))
        x = torch.nn.functional.silu(linear(tokens, parameters["input"]))
        return step, x, linear(tokens, parameters["write"])

    @classmethod
    def recall(cls, config: MambaConfig, parameters: Tensors, memory: Tensors, queries: Tensor) -> Tensor:
        import torch

        classes = parameters["bias"].shape[1]
        tokens = torch.cat([queries, queries.new_zeros(*queries.shape[:3], classes)], 3)
        step, x, write = cls.selected(parameters, tokens)
        read = linear(tokens, parameters["read"])
        decay = (-step[..., None] * parameters["log_decay"].exp()[:, None, None]).exp()
        held = ((decay * memory["state"][:, :, None]) @ read[..., None])[..., 0]
        written = step * x * (write * read).sum(3, keepdim=True)
        y = held + written + parameters["skip"][:, None, None] * x
        y = y * torch.nn.functional.silu(linear(tokens, parameters["gate"]))
        return linear(y, parameters["readout"], parameters["bias"])

    @classmethod
    def plain_scores(
        cls, config: MambaConfig, parameters: dict[str, Floats], keys: Floats, values: Floats, queries: Floats
    ) -> Floats:
        p = parameters
        h = np.zeros((config.channels, config.state))

        def silu(x: Floats) -> Floats:
            return x * (0.5 + 0.5 * np.tanh(0.5 * x))

        def after(h: Floats, token: Floats) -> tuple[Floats, Floats]:
            step = np.logaddexp(0.0, token @ p["step"] + p["step_bias"])
            x = silu(token @ p["input"])
            decay = np.exp(-step[:, None] * np.exp(p["log_decay"]))
            return decay * h + np.outer(step * x, token @ p["write"]), x

        for key, value in zip(keys, values, strict=True):
            h, _ = after(h, np.concatenate([key, value]))
        scores = []
        for query in queries:
            token = np.concatenate([query, np.zeros(values.shape[1])])
            asked, x = after(h, token)
            y = (asked @ (token @ p["read"]) + p["skip"] * x) * silu(token @ p["gate"])
            scores.append(y @ p["readout"] + p["bias"])
        return np.stack(scores)

    def slots(self) -> int:
        return self.config.state

    def slots_over_time(self) -> Ints:
        return np.full(self.length, self.config.state)
