"""What every sequence model is: embeddings, blocks one after another, and logits by the token table."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, cast

from torch import arange, full
from torch.nn import Module, ModuleList

from models.sequence.layers import Dropout, Embedding, LayerNorm

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from models.sequence.config import SequenceConfig
    from models.sequence.lanes import Lanes

State = dict[str, Any]
"""What a block keeps of the tokens that it has read one by one: tensors [S, B, ...] by name, and numbers."""


class Block(Module):
    """x + drop(mix(norm(x))), and of that y + drop(feed(norm(y))) (pre-norm residual block).

    Subclasses say how tokens are mixed, in `mix` over whole sequences and in `mix_next` token by token.
    """

    def __init__(self, lanes: Lanes, width: int, dropout: float, feed: Module) -> None:
        super().__init__()
        self.norm, self.feed_norm = LayerNorm(lanes, width), LayerNorm(lanes, width)
        self.drop = Dropout(lanes, dropout)
        self.feed = feed

    @abstractmethod
    def mix(self, u: Tensor, at: Tensor | None = None) -> Tensor:
        """What tokens `u` [S, B, T, d] become by reading those before them, at positions `at` [P] (None: all T)."""

    @abstractmethod
    def mix_next(self, u: Tensor, state: State) -> Tensor:
        """The same for the next token `u` [S, B, d], after those that `state` tells of, which takes it in."""

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        return self.fed(taken(x, at) + self.drop(self.mix(self.norm(x), at)))

    def next(self, x: Tensor, state: State) -> Tensor:
        """The block's output for the next token `x` [S, B, d]."""
        return self.fed(x + self.mix_next(self.norm(x), state))

    def fed(self, y: Tensor) -> Tensor:
        """The second half of the block, which looks at one token at a time."""
        out: Tensor = y + self.drop(self.feed(self.feed_norm(y)))
        return out


class SequenceModel(Module):
    """Logits over a vocabulary, from token ids.

    lanes: the seeds that are computed as one; vocabulary: ids are 0 .. vocabulary - 1; length: of the longest sequence
    """

    def __init__(self, config: SequenceConfig, lanes: Lanes, vocabulary: int, length: int) -> None:
        super().__init__()
        self.tokens = Embedding(lanes, vocabulary, config.width)
        self.places = Embedding(lanes, length, config.width) if config.positions == "learned" else None
        self.drop = Dropout(lanes, config.dropout)
        self.blocks = ModuleList(self.make_blocks(config, lanes))
        self.norm = LayerNorm(lanes, config.width)

    @abstractmethod
    def make_blocks(self, config: Any, lanes: Lanes) -> Iterable[Block]:
        """The blocks, first to last."""

    def forward(self, ids: Tensor, at: Tensor | None = None) -> Tensor:
        """Logits [S, B, P, V] at positions `at` [P] (None: all) of `ids` [S, B, T]."""
        return self.tokens.logits(self.norm(self.through(self.embed(ids), at)))

    def through(self, x: Tensor, at: Tensor | None) -> Tensor:
        """What blocks make of `x` [S, B, T, d], the last of them at positions `at` alone."""
        for number, block in enumerate(self.blocks, start=1):
            x = block(x, at if number == len(self.blocks) else None)
        return x

    def embed(self, ids: Tensor) -> Tensor:
        """Tokens and their positions [S, B, T, d]."""
        return self.placed(self.tokens(ids))

    def placed(self, tokens: Tensor) -> Tensor:
        """Embedded `tokens` [S, B, T, d] with their positions."""
        lanes, _, length, _ = tokens.shape
        if self.places is not None:
            tokens = tokens + self.places(arange(length, device=tokens.device).expand(lanes, 1, -1))
        x: Tensor = self.drop(tokens)
        return x

    def start(self) -> State:
        """Where reading token by token begins."""
        return {"read": 0, "blocks": [{} for _ in self.blocks]}

    def next(self, ids: Tensor, state: State) -> Tensor:
        """Logits [S, B, V] after the next token of each sequence, `ids` [S, B], in evaluation mode alone."""
        return self.tokens.logits(self.norm(self.through_next(self.embed_next(ids, state), state)))

    def through_next(self, x: Tensor, state: State) -> Tensor:
        """What blocks make of the next token `x` [S, B, d]."""
        for block, own in zip(cast("Iterable[Block]", self.blocks), state["blocks"], strict=True):
            x = block.next(x, own)
        state["read"] += 1
        return x

    def embed_next(self, ids: Tensor, state: State) -> Tensor:
        """The next token and its position [S, B, d]."""
        return self.placed_next(self.tokens(ids), state)

    def placed_next(self, tokens: Tensor, state: State) -> Tensor:
        """The next embedded token `tokens` [S, B, d] with its position."""
        if self.places is None:
            return tokens
        place = full((len(tokens), 1), state["read"], device=tokens.device)
        x: Tensor = tokens + self.places(place)
        return x


def taken(x: Tensor, at: Tensor | None, dim: int = 2) -> Tensor:
    """`x` at positions `at` along `dim`; all of it if None."""
    return x if at is None else x.index_select(dim, at)


def parameters_per_lane(model: Module) -> int:
    """Numbers that one lane of `model` learns."""
    return sum(parameter[0].numel() for parameter in model.parameters())


def state_bytes(state: Any, lanes: int) -> int:
    """Bytes of all tensors in a state, for one sequence of one lane; batches of one."""
    if isinstance(state, dict):
        return sum(state_bytes(one, lanes) for one in state.values())
    if isinstance(state, list | tuple):
        return sum(state_bytes(one, lanes) for one in state)
    return int(state.numel() * state.element_size()) // lanes if hasattr(state, "numel") else 0
