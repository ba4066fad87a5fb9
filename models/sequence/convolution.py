"""The local convolution of hybrid models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from torch import cat
from torch.nn import Module
from torch.nn.functional import conv1d, gelu, pad

from models.sequence.layers import Dropout, Linear
from models.sequence.triple_config import TAPS

if TYPE_CHECKING:
    from torch import Tensor

    from models.sequence.lanes import Lanes
    from models.sequence.model import State


class LocalConvolution(Module):
    """x_t + drop(GELU(W [x_{t-4} .. x_t])), with zeros before the first token (arXiv 2606.05175).

    `two_sided` is as published: W [x_{t-2} .. x_{t+2}], which tells every output the two tokens that come next.
    """

    def __init__(self, lanes: Lanes, width: int, dropout: float, sides: Literal["causal", "two_sided"]) -> None:
        super().__init__()
        self.later = TAPS // 2 if sides == "two_sided" else 0
        self.mix = Linear(lanes, TAPS * width, width)
        self.drop = Dropout(lanes, dropout)

    def forward(self, x: Tensor) -> Tensor:
        lanes, _, _, width = x.shape
        padded = pad(x, (0, 0, TAPS - 1 - self.later, self.later))
        channels = padded.permute(1, 0, 3, 2).flatten(1, 2)
        taps = self.mix.weight.view(lanes * width, TAPS, width).mT
        bias = None if self.mix.bias is None else self.mix.bias.flatten()
        mixed = conv1d(channels, taps, bias, groups=lanes)
        y: Tensor = x + self.drop(gelu(mixed.view(-1, lanes, width, x.shape[2]).permute(1, 0, 3, 2)))
        return y

    def next(self, x: Tensor, state: State) -> Tensor:
        """The same for the next token `x` [S, B, d]. Raises ValueError if later ones would have to be known."""
        if self.later:
            raise ValueError(
                "a `two_sided` convolution needs tokens to come and cannot read them one by one; use `causal`"
            )
        before = state.get("before", x.new_zeros(*x.shape[:2], (TAPS - 1) * x.shape[2]))
        near = cat([before, x], dim=2)
        state["before"] = near[:, :, x.shape[2] :]
        return x + gelu(self.mix(near))
