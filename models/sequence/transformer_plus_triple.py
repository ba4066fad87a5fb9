"""The Transformer with a triple-latent layer beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.sequence.attention import Transformer
from models.sequence.layers import LayerNorm
from models.sequence.model import State, taken
from models.sequence.triple import Triple

if TYPE_CHECKING:
    from torch import Tensor

    from models.mechanisms.transformer_plus_triple import TransformerPlusTripleConfig
    from models.sequence.lanes import Lanes


class TokenTriple(Triple):
    """A triple-latent layer whose state is made of the bare embeddings of tokens."""

    def follow(self, x: Tensor, tokens: Tensor, at: Tensor | None) -> Tensor:
        """The output at positions `at` for the stream `x` [S, B, T, d] of embedded `tokens` [S, B, T, d]."""
        return self.fed(taken(x, at) + self.drop(self.recur(self.norm(x), at, tokens)))

    def follow_next(self, x: Tensor, token: Tensor, state: State) -> Tensor:
        """The same for the next token, `x` and `token` [S, B, d]."""
        return self.fed(x + self.recur_next(self.norm(x), state, token))


class TransformerPlusTriple(Transformer):
    """E (LN(h) + LN'(c)): the Transformer's output h, and c of a triple-latent layer that reads the same embeddings."""

    def __init__(self, config: TransformerPlusTripleConfig, lanes: Lanes, vocabulary: int, length: int) -> None:
        super().__init__(config, lanes, vocabulary, length)
        self.triple, self.triple_norm = TokenTriple(config, lanes), LayerNorm(lanes, config.width)

    def forward(self, ids: Tensor, at: Tensor | None = None) -> Tensor:
        tokens = self.tokens(ids)
        x = self.placed(tokens)
        c = self.triple.follow(x, tokens, at)
        return self.tokens.logits(self.norm(self.through(x, at)) + self.triple_norm(c))

    def start(self) -> State:
        return {**super().start(), "triple": {}}

    def next(self, ids: Tensor, state: State) -> Tensor:
        tokens = self.tokens(ids)
        x = self.placed_next(tokens, state)
        c = self.triple.follow_next(x, tokens, state["triple"])
        return self.tokens.logits(self.norm(self.through_next(x, state)) + self.triple_norm(c))
