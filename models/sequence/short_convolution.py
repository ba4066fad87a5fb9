"""A causal convolution of a few tokens for every channel by itself: what selective state spaces see of order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import cat
from torch.nn import Module, Parameter
from torch.nn.functional import pad, silu

if TYPE_CHECKING:
    from torch import Tensor

    from models.sequence.lanes import Lanes
    from models.sequence.model import State

TAPS = 4
"""Tokens that the convolution sees, as in Mamba and Gated DeltaNet (arXiv 2312.00752, 2412.06464)."""


class ShortConvolution(Module):
    """silu(sum over taps of w_i x_{t-3+i} + b) of x [S, B, T, C]; weights start uniform within ± taps^-1/2."""

    def __init__(self, lanes: Lanes, channels: int) -> None:
        super().__init__()
        bound = TAPS**-0.5
        self.weight = Parameter(lanes.uniform(-bound, bound, TAPS, channels))
        self.bias = Parameter(lanes.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        tokens, seen = x.shape[2], pad(x, (0, 0, TAPS - 1, 0))
        y = self.bias[:, None, None]
        for tap in range(TAPS):
            y = y + self.weight[:, None, None, tap] * seen[:, :, tap : tap + tokens]
        return silu(y)

    def next(self, x: Tensor, state: State) -> Tensor:
        """The same for the next token `x` [S, B, C]; `state` keeps the three before it."""
        before = state["convolution"] if state else x.new_zeros(*x.shape[:2], TAPS - 1, x.shape[2])
        seen = cat([before, x[:, :, None]], 2)
        state["convolution"] = seen[:, :, 1:]
        return silu((self.weight[:, None] * seen).sum(2) + self.bias[:, None])
