"""Mamba-2: a state space whose steps, inputs and outputs depend on the token, with one decay a head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, split
from torch.nn import Parameter
from torch.nn.functional import silu, softplus

from models.sequence.layers import FeedForward, Linear, RMSNorm, join_heads, split_heads
from models.sequence.model import Block, SequenceModel, State, taken
from models.sequence.recurrence import linear_attention, linear_attention_step
from models.sequence.short_convolution import ShortConvolution

if TYPE_CHECKING:
    from collections.abc import Iterator

    from models.sequence.lanes import Lanes
    from models.sequence.state_space_config import MambaBlockConfig

FASTEST = 16.0
"""Rates of decay start log-uniform between 1 and this (arXiv 2405.21060, released code)."""

STEPS = (1e-3, 1e-1)
"""Time steps start log-uniform between these (arXiv 2312.00752, Sec. 3.6)."""


class Mamba(Block):
    """h_t = exp(-a Δ_t) h_{t-1} + Δ_t B_t x_t^T and y_t = h_t^T C_t + D x_t a head, of the convolved token.

    Gated and normalised, RMSNorm(y · silu(z)), it goes back to width d. B and C are common to all heads.
    """

    def __init__(self, config: MambaBlockConfig, lanes: Lanes) -> None:
        super().__init__(lanes, config.width, config.dropout, FeedForward(lanes, config.width, config.dropout))
        self.heads, self.inner, self.state = config.heads, config.expand * config.width, config.state
        outputs = 2 * self.inner + 2 * self.state + self.heads
        self.project = Linear(lanes, config.width, outputs, bias=False)
        bound = config.width**-0.5  # std 0.02 would leave B C^T a thousandth of the skip D
        self.project.weight.data = lanes.uniform(-bound, bound, outputs, config.width)
        self.convolution = ShortConvolution(lanes, self.inner + 2 * self.state)
        self.rate_log = Parameter(lanes.uniform(1.0, FASTEST, self.heads).log())
        self.step_bias = Parameter(step_bias(lanes, self.heads))
        self.skip = Parameter(lanes.ones(self.heads))
        self.out_norm = RMSNorm(lanes, self.inner)
        self.out = Linear(lanes, self.inner, config.width, bias=False)

    def mix(self, u: Tensor, at: Tensor | None = None) -> Tensor:
        gate, fed, step = self.projected(u)
        x, write, query = self.parts(self.convolution(fed))
        value, log_decay = self.written(x, step)
        read, _ = linear_attention(query, write, value, log_decay)
        return self.finished(*(taken(part, at) for part in (join_heads(read, len(u), self.heads), x, gate)))

    def mix_next(self, u: Tensor, state: State) -> Tensor:
        gate, fed, step = self.projected(u[:, :, None])
        x, write, query = self.parts(self.convolution.next(fed[:, :, 0], state)[:, :, None])
        value, log_decay = self.written(x, step)
        query, write, value, log_decay = (part[:, 0] for part in (query, write, value, log_decay))
        read, state["memory"] = linear_attention_step(query, write, value, log_decay, state.get("memory"))
        return self.finished(join_heads(read[:, None], len(u), self.heads), x, gate)[:, :, 0]

    def projected(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of `u` [S, B, T, d] the gate z [.., inner], what is convolved, and steps before their softplus [.., H]."""
        gate, fed, step = split(self.project(u), [self.inner, self.inner + 2 * self.state, self.heads], dim=3)
        return gate, fed, step

    def parts(self, fed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [S, B, T, inner], and B and C as lanes of heads [S·B·H, T, state]."""
        x, write, query = split(fed, [self.inner, self.state, self.state], dim=3)
        return x, self.for_heads(write), self.for_heads(query)

    def for_heads(self, shared: Tensor) -> Tensor:
        """The same [S, B, T, state] for every head, [S·B·H, T, state]."""
        return shared[:, :, None].expand(-1, -1, self.heads, -1, -1).flatten(0, 2)

    def written(self, x: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        """Δ x [S·B·H, T, inner/H] and logarithms of decays [S·B·H, T]."""
        step = softplus(step + self.step_bias[:, None, None])
        log_decay = -self.rate_log.exp()[:, None, None] * step
        return split_heads(x, self.heads) * split_heads(step, self.heads), split_heads(log_decay, self.heads)[:, :, 0]

    def finished(self, read: Tensor, x: Tensor, gate: Tensor) -> Tensor:
        """Reads with the skip, gated, normalised and projected to width d."""
        skip = self.skip.repeat_interleave(self.inner // self.heads, dim=1)[:, None, None]
        y: Tensor = self.out(self.out_norm((read + skip * x) * silu(gate)))
        return y


def step_bias(lanes: Lanes, heads: int) -> Tensor:
    """Biases [S, H] of which the softplus is log-uniform within STEPS."""
    low, high = STEPS
    steps = low * (high / low) ** lanes.uniform(0.0, 1.0, heads)
    return steps.expm1().log()


class MambaModel(SequenceModel):
    """Pre-norm blocks of a selective state space and a feed-forward part."""

    def make_blocks(self, config: MambaBlockConfig, lanes: Lanes) -> Iterator[Block]:
        for _ in range(config.layers):
            yield Mamba(config, lanes)
