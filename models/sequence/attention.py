"""The Transformer: causal attention, and three forms of its feed-forward part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import arange, cat
from torch.nn import Module
from torch.nn.functional import scaled_dot_product_attention, silu

from models.sequence.layers import Dropout, FeedForward, Linear, join_heads, split_heads
from models.sequence.local_attention import block_size, local_attention, outside
from models.sequence.model import Block, SequenceModel, State, taken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from models.sequence.attention_config import AttentionConfig
    from models.sequence.lanes import Lanes


class Attention(Block):
    """Causal softmax attention with H heads (arXiv 1706.03762), and dropout on its weights in training.

    With a window each token attends to so many tokens, the last of which it is itself (arXiv 2004.05150, Sec. 3.1).
    """

    def __init__(self, config: AttentionConfig, lanes: Lanes) -> None:
        super().__init__(lanes, config.width, config.dropout, feed_forward(config, lanes))
        width, self.heads, self.window = config.width, config.heads, config.window
        self.project = Linear(lanes, width, 3 * width)
        bound = (6.0 / (4 * width)) ** 0.5  # Xavier's, of the fused matrix [3d, d]
        self.project.weight.data = lanes.uniform(-bound, bound, 3 * width, width)
        self.weight_drop = Dropout(lanes, config.attention_dropout)
        self.out = Linear(lanes, width, width)

    def mix(self, u: Tensor, at: Tensor | None = None) -> Tensor:
        query, key, value = self.project(u).chunk(3, dim=3)
        query, key, value = (split_heads(part, self.heads) for part in (taken(query, at), key, value))
        read = self.attend(query, key, value, len(u), at)
        mixed: Tensor = self.out(join_heads(read, len(u), self.heads))
        return mixed

    def attend(self, query: Tensor, key: Tensor, value: Tensor, lanes: int, at: Tensor | None) -> Tensor:
        """Values read at positions `at`; by blocks where a window is short, fused where nothing else is asked for."""
        if at is None and self.window is not None and key.shape[1] > 2 * block_size(self.window):
            return local_attention(query, key, value, self.window, lambda weights: self.dropped(weights, lanes))
        if at is None and not (self.training and self.weight_drop.share):
            # Fused kernels take heads of their own dimension alone, of which each lane here is one.
            mask = None if self.window is None else ~self.hidden(key, at)
            query, key, value = query[:, None], key[:, None], value[:, None]
            return scaled_dot_product_attention(query, key, value, mask, is_causal=mask is None)[:, 0]
        scores = (query @ key.mT / key.shape[2] ** 0.5).masked_fill(self.hidden(key, at), float("-inf"))
        return self.dropped(scores.softmax(2), lanes) @ value

    def dropped(self, weights: Tensor, lanes: int) -> Tensor:
        """Attention weights [S·B·H, ...] with the dropout of each lane."""
        kept: Tensor = self.weight_drop(weights.view(lanes, -1, *weights.shape[1:])).view_as(weights)
        return kept

    def hidden(self, key: Tensor, at: Tensor | None) -> Tensor:
        """Which of the tokens of `key` [N, T, w] those at positions `at` must not see [P, T]."""
        places = arange(key.shape[1], device=key.device)
        here = (places if at is None else at)[:, None]
        return outside(places, here, self.window)

    def mix_next(self, u: Tensor, state: State) -> Tensor:
        query, key, value = (split_heads(part[:, :, None], self.heads) for part in self.project(u).chunk(3, dim=2))
        if state:
            key, value = cat([state["keys"], key], 1), cat([state["values"], value], 1)
        if self.window is not None:
            key, value = key[:, -self.window :], value[:, -self.window :]
        state["keys"], state["values"] = key, value
        read = scaled_dot_product_attention(query, key, value)
        mixed: Tensor = self.out(join_heads(read, len(u), self.heads))
        return mixed[:, :, 0]


def feed_forward(config: AttentionConfig, lanes: Lanes) -> Module:
    """The position-wise part that `config` names."""
    if config.feed_forward == "gelu":
        return FeedForward(lanes, config.width, config.dropout)
    hidden = 4 * config.width if config.feed_forward == "swiglu" else 8 * config.width // 3
    return SwiGLU(lanes, config.width, hidden)


class SwiGLU(Module):
    """W_d [(W_u x) · silu(W_g x)], without biases (arXiv 2002.05202)."""

    def __init__(self, lanes: Lanes, width: int, hidden: int) -> None:
        super().__init__()
        self.rise = Linear(lanes, width, 2 * hidden, bias=False)
        self.fall = Linear(lanes, hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        up, gate = self.rise(x).chunk(2, dim=-1)
        y: Tensor = self.fall(up * silu(gate))
        return y


class Transformer(SequenceModel):
    """Pre-norm blocks of attention and a feed-forward part."""

    def make_blocks(self, config: AttentionConfig, lanes: Lanes) -> Iterator[Block]:
        for _ in range(config.layers):
            yield Attention(config, lanes)
