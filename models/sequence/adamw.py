"""AdamW for lanes: each has a learning rate and a gradient norm of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

BETAS = (0.9, 0.999)
EPSILON = 1e-8
CLIP = 1.0
"""Largest norm of a lane's gradient; longer ones are scaled down to it."""


class LaneAdamW:
    """Decoupled weight decay (arXiv 1711.05101) of all parameters alike, and Adam's two means, lane by lane.

    All parameters of the model become parts of one tensor [P], and their gradients of another, so that a step is a few
    operations whatever the number of layers. Each part holds its lanes one after another.
    """

    def __init__(self, model: Module, rates: Sequence[float], weight_decay: float) -> None:
        """rates: the learning rate of each lane"""
        parameters = list(model.parameters())
        self.flat = torch.cat([one.detach().flatten() for one in parameters])
        self.gradient = torch.zeros_like(self.flat)
        self.mean, self.square = torch.zeros_like(self.flat), torch.zeros_like(self.flat)
        self.weight_decay = weight_decay
        self.steps = 0
        self._parts: list[Tensor] = []
        start = 0
        for one in parameters:
            stop = start + one.numel()
            one.data = self.flat[start:stop].view_as(one)
            one.grad = self.gradient[start:stop].view_as(one)
            self._parts.append(self.gradient[start:stop].view(len(rates), -1))
            start = stop
        each = self.flat.new_tensor(rates)[:, None]
        self.rates = torch.cat([each.expand_as(part).flatten() for part in self._parts])

    def step(self, share: float) -> None:
        """A step with `share` of the learning rates, after which gradients are 0 again."""
        self.steps += 1
        self._clip()
        self.mean.lerp_(self.gradient, 1.0 - BETAS[0])
        self.square.mul_(BETAS[1]).addcmul_(self.gradient, self.gradient, value=1.0 - BETAS[1])
        scale = (self.square / (1.0 - BETAS[1] ** self.steps)).sqrt_().add_(EPSILON)
        rates = share * self.rates
        self.flat.mul_(1.0 - rates * self.weight_decay)
        self.flat.sub_(self.mean / scale * (rates / (1.0 - BETAS[0] ** self.steps)))
        self.gradient.zero_()

    def _clip(self) -> None:
        """Shorten each lane's gradient to `CLIP`."""
        squares = torch.stack([part.square().sum(1) for part in self._parts]).sum(0)
        factors = (CLIP / (squares.sqrt() + 1e-6)).clamp_(max=1.0)
        if len(factors) == 1:
            self.gradient.mul_(factors)
            return
        for part in self._parts:
            part.mul_(factors[:, None])

    def state(self) -> dict[str, Tensor | int]:
        """What `resume` needs to go on."""
        return {"flat": self.flat, "mean": self.mean, "square": self.square, "steps": self.steps}

    def resume(self, state: dict[str, Tensor | int]) -> None:
        """Go on from `state`: parameters, means and steps."""
        for name in ("flat", "mean", "square"):
            getattr(self, name).copy_(state[name])
        self.steps = int(state["steps"])
