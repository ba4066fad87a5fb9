"""S4D: diagonal state spaces, one for every channel, evaluated as a convolution or token by token."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import Tensor, arange, complex
from torch.fft import irfft, rfft
from torch.nn import Parameter
from torch.nn.functional import gelu

from models.sequence.layers import FeedForward, Linear
from models.sequence.mamba import STEPS
from models.sequence.model import Block, SequenceModel, State, taken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from models.sequence.lanes import Lanes
    from models.sequence.state_space_config import S4DBlockConfig

SPAN = 64
"""Powers of a pole are taken within this many tokens and from span to span, and multiplied."""


class S4D(Block):
    """W gelu(k * u + D u) + b with k_l = 2 Re(sum over n of C_n (exp(Δ A_n) - 1) / A_n exp(l Δ A_n)), a channel each.

    A starts as S4D-Lin, -1/2 + iπn, and the step Δ log-uniform (arXiv 2206.11893, Secs. 3 and 4); B is 1.
    """

    def __init__(self, config: S4DBlockConfig, lanes: Lanes) -> None:
        super().__init__(lanes, config.width, config.dropout, FeedForward(lanes, config.width, config.dropout))
        width, poles = config.width, config.state // 2
        low, high = STEPS
        self.step_log = Parameter(lanes.uniform(math.log(low), math.log(high), width, 1))
        self.rate_log = Parameter(lanes.zeros(width, poles) + math.log(0.5))
        self.frequency = Parameter(lanes.zeros(width, poles) + math.pi * arange(poles, device=lanes.place))
        self.read = Parameter(lanes.normal(2, width, poles, std=0.5**0.5))
        self.skip = Parameter(lanes.normal(width, std=1.0))
        self.out = Linear(lanes, width, width)

    def mix(self, u: Tensor, at: Tensor | None = None) -> Tensor:
        tokens = u.shape[2]
        size = 1 << (2 * tokens - 1).bit_length()  # so long that nothing wraps around to earlier tokens
        spectrum = rfft(u.transpose(2, 3), size) * rfft(self.kernel(tokens), size)[:, None]
        y = irfft(spectrum, size)[..., :tokens].transpose(2, 3) + self.skip[:, None, None] * u
        out: Tensor = self.out(gelu(taken(y, at)))
        return out

    def mix_next(self, u: Tensor, state: State) -> Tensor:
        exponent, read = self.poles()
        kept = exponent.exp()[:, None] * state["memory"] + u[..., None] if state else complex(u, u * 0.0)[..., None]
        state["memory"] = kept.expand(*u.shape, exponent.shape[2])
        y = 2.0 * (read[:, None] * state["memory"]).sum(3).real + self.skip[:, None] * u
        out: Tensor = self.out(gelu(y))
        return out

    def poles(self) -> tuple[Tensor, Tensor]:
        """Δ A and C (exp(Δ A) - 1) / A, complex [S, d, state/2]."""
        pole = complex(-self.rate_log.exp(), self.frequency)
        exponent = self.step_log.exp() * pole
        return exponent, complex(*self.read.unbind(1)) * (exponent.exp() - 1.0) / pole

    def kernel(self, tokens: int) -> Tensor:
        """k [S, d, tokens], as products of powers between and within spans: their exponentials are few."""
        exponent, read = self.poles()
        spans = -(-tokens // SPAN)
        places = arange(SPAN, device=exponent.device)
        starts = SPAN * arange(spans, device=exponent.device)
        within = (exponent[:, :, None] * places[:, None]).exp()
        between = read[:, :, None] * (exponent[:, :, None] * starts[:, None]).exp()
        real = between.real @ within.real.mT - between.imag @ within.imag.mT
        return 2.0 * real.flatten(2)[..., :tokens]


class S4DModel(SequenceModel):
    """Pre-norm blocks of diagonal state spaces and a feed-forward part."""

    def make_blocks(self, config: S4DBlockConfig, lanes: Lanes) -> Iterator[Block]:
        for _ in range(config.layers):
            yield S4D(config, lanes)
