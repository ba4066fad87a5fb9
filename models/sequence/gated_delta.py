"""Gated DeltaNet: a memory that forgets at a rate and corrects what a key stood for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, split
from torch.nn import Parameter
from torch.nn.functional import normalize, silu, softplus

from models.sequence.layers import FeedForward, Linear, RMSNorm, join_heads, split_heads
from models.sequence.mamba import FASTEST, step_bias
from models.sequence.model import Block, SequenceModel, State, taken
from models.sequence.recurrence import gated_delta, gated_delta_step
from models.sequence.short_convolution import ShortConvolution

if TYPE_CHECKING:
    from collections.abc import Iterator

    from models.sequence.lanes import Lanes
    from models.sequence.state_space_config import GatedDeltaBlockConfig


class GatedDelta(Block):
    """P_t = α_t (I - β_t k_t k_t^T) P_{t-1} + β_t k_t v_t^T, read with q_t (arXiv 2412.06464, Eq. 10 and Fig. 1).

    q, k, v pass a short convolution, q and k have length 1, β = sigmoid(W_β u), α = exp(-a softplus(W_α u + b)).
    Reads are normalised a head, gated by silu(W_g u), and go back to width d.
    """

    def __init__(self, config: GatedDeltaBlockConfig, lanes: Lanes) -> None:
        super().__init__(lanes, config.width, config.dropout, FeedForward(lanes, config.width, config.dropout))
        self.heads = config.heads
        self.keys, self.values = config.heads * config.state, config.heads * config.expand * config.state
        self.project = Linear(lanes, config.width, 2 * self.keys + 2 * self.values + 2 * self.heads, bias=False)
        self.convolution = ShortConvolution(lanes, 2 * self.keys + self.values)
        self.rate_log = Parameter(lanes.uniform(1.0, FASTEST, self.heads).log())
        self.step_bias = Parameter(step_bias(lanes, self.heads))
        self.out_norm = RMSNorm(lanes, config.expand * config.state)
        self.out = Linear(lanes, self.values, config.width, bias=False)

    def mix(self, u: Tensor, at: Tensor | None = None) -> Tensor:
        gate, fed, beta, step = self.projected(u)
        read, _ = gated_delta(*self.parts(self.convolution(fed)), self.log_decay(step), self.per_head(beta.sigmoid()))
        return self.finished(taken(join_heads(read, len(u), self.heads), at), taken(gate, at))

    def mix_next(self, u: Tensor, state: State) -> Tensor:
        gate, fed, beta, step = self.projected(u[:, :, None])
        query, key, value = (part[:, 0] for part in self.parts(self.convolution.next(fed[:, :, 0], state)[:, :, None]))
        log_decay, strength = self.log_decay(step)[:, 0], self.per_head(beta.sigmoid())[:, 0]
        read, state["memory"] = gated_delta_step(query, key, value, log_decay, strength, state.get("memory"))
        return self.finished(join_heads(read[:, None], len(u), self.heads), gate)[:, :, 0]

    def projected(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of `u` [S, B, T, d] the gate, what is convolved, and beta and steps [.., H] before their nonlinearities."""
        sizes = [self.values, 2 * self.keys + self.values, self.heads, self.heads]
        gate, fed, beta, step = split(self.project(u), sizes, dim=3)
        return gate, fed, beta, step

    def parts(self, fed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values as lanes of heads [S·B·H, T, ...]."""
        query, key, value = split(fed, [self.keys, self.keys, self.values], dim=3)
        query, key = (normalize(split_heads(part, self.heads), dim=2, eps=1e-6) for part in (query, key))
        return query, key, split_heads(value, self.heads)

    def log_decay(self, step: Tensor) -> Tensor:
        """Logarithms of α [S·B·H, T]."""
        return self.per_head(-self.rate_log.exp()[:, None, None] * softplus(step + self.step_bias[:, None, None]))

    def per_head(self, x: Tensor) -> Tensor:
        """Numbers [S, B, T, H] as lanes [S·B·H, T]."""
        return split_heads(x, self.heads)[:, :, 0]

    def finished(self, read: Tensor, gate: Tensor) -> Tensor:
        """Reads normalised, gated and projected to width d."""
        lanes, batch, tokens, _ = read.shape
        normed: Tensor = self.out_norm(read.view(lanes, batch, tokens, self.heads, -1)).flatten(3)
        y: Tensor = self.out(normed * silu(gate))
        return y


class GatedDeltaModel(SequenceModel):
    """Pre-norm blocks of a gated delta rule and a feed-forward part."""

    def make_blocks(self, config: GatedDeltaBlockConfig, lanes: Lanes) -> Iterator[Block]:
        for _ in range(config.layers):
            yield GatedDelta(config, lanes)
