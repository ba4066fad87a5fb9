"""SparsePointer: UniMatrix beside a few slots of token pairs, which also point at tokens to answer with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from torch import Tensor, arange, cat, no_grad, ones_like, where, zeros_like
from torch.nn.functional import pad

from models.sequence.layers import Linear
from models.sequence.model import State, taken
from models.sequence.recurrence import decayed_sum
from models.sequence.recurrence.associative_read import SHARPNESS, rows, unit
from models.sequence.slots import FAINTEST, TIE, Choices, Policy, choose
from models.sequence.unimatrix import HintedBlock, MatrixBlock, UniMatrix

if TYPE_CHECKING:
    from models.mechanisms.sparse_pointer import SparsePointerConfig
    from models.sequence.lanes import Lanes

FORGOTTEN = -1e4
"""Logarithm of the share that a slot keeps when it is opened anew: none."""


class Recall(NamedTuple):
    """What tokens read: a mean of values [S, B, ..., d], and weights [S, B, ..., K] of stored token ids."""

    value: Tensor
    weights: Tensor
    ids: Tensor


class SparsePointer(UniMatrix):
    """Token t reads the slots with the embedding of token t - 1, and then writes: under that, its own embedding.

    Embeddings are bare: no position, no dropout. Which slots are read and written is told in `slots.choose`. Weights
    are softmax(8 (cos / sqrt(d) + ln s)) over the slots read, and a slot of strength s gives s times its value: each
    token takes sigmoid(W u + b) of their mean. Pointer logits are sigmoid(w u + b) times the weights, of the token id
    that a slot took in last, with u of the last pass. Slots depend on embeddings alone: all passes read the same.
    """

    def __init__(self, config: SparsePointerConfig, lanes: Lanes, vocabulary: int, length: int) -> None:
        super().__init__(config, lanes, vocabulary, length)
        self.policy = Policy(config.slots, config.top_k, config.merge_above, config.empty_below)
        self.write_gate = Linear(lanes, 2 * config.width, 1) if config.write_gate else None
        self.pointer_gate = Linear(lanes, config.width, 1) if config.pointer_logits else None

    def make_block(self, config: SparsePointerConfig, lanes: Lanes) -> MatrixBlock:
        return HintedBlock(config, lanes)

    def forward(self, ids: Tensor, at: Tensor | None = None) -> Tensor:
        recall = self.recall(ids)
        entering, x = self.passes(ids, at, recall.value)
        here = Recall(*(taken(part, at) for part in recall))
        return self.pointed(self.tokens.logits(self.norm(x)), taken(entering, at), here)

    def next(self, ids: Tensor, state: State) -> Tensor:
        recall = self.recall_next(ids, state)
        entering, x = self.passes_next(ids, state, recall.value)
        return self.pointed(self.tokens.logits(self.norm(x)), entering, recall)

    def pointed(self, logits: Tensor, entering: Tensor, recall: Recall) -> Tensor:
        """Logits [S, B, ..., V] with the pointer's, for tokens as they enter the last pass [S, B, ..., d]."""
        if self.pointer_gate is None:
            return logits
        u = cast("MatrixBlock", self.blocks[-1]).norm(entering)
        pointed = self.pointer_gate(u).sigmoid() * recall.weights
        return logits.scatter_add(-1, recall.ids, pointed.to(logits.dtype))

    def strengths(self, key: Tensor, value: Tensor) -> Tensor:
        """Strengths [...] of writes of `value` under `key` [..., d]."""
        if self.write_gate is None:
            return ones_like(key[..., 0])
        strength: Tensor = self.write_gate(cat([key, value], -1)).sigmoid().squeeze(-1)
        return strength

    def recall(self, ids: Tensor) -> Recall:
        """What tokens `ids` [S, B, T] read."""
        value = self.tokens(ids)
        key = pad(value[:, :, :-1], (0, 0, 1, 0))
        strength = self.strengths(key, value).flatten(0, 1)
        key, value = key.flatten(0, 1), value.flatten(0, 1)
        with no_grad():
            choices = choose(key, strength, self.policy)
            read = choices.read.clamp_min(0)
        held, stored = rows(versions(cat([key, value], 2), strength, choices), read).chunk(2, dim=3)
        strengths = strength.gather(1, choices.stronger).gather(1, read.flatten(1)).view_as(read)
        found, weights = weighed(key, held, stored, strengths, choices.read >= 0)
        pointed = ids.flatten(0, 1).gather(1, read.flatten(1)).view_as(read)
        return Recall(*(part.view(*ids.shape, -1) for part in (found, weights, pointed)))

    def recall_next(self, ids: Tensor, state: State) -> Recall:
        """The same for the next token, `ids` [S, B]. Choices are made in the type of the parameters."""
        value = self.tokens(ids)
        key = state["embedded"] if state["read"] else zeros_like(value)
        if not state["read"]:
            state["slots"] = Slots.none(key.flatten(0, 1), self.policy.slots)
        strength = self.strengths(key, value).flatten()
        recall = state["slots"].read(key.flatten(0, 1), self.policy)
        if state["read"]:
            slots = cast("Slots", state["slots"])
            pair = cat([key, value], 2).flatten(0, 1)
            state["slots"] = slots.written(pair, strength, ids.flatten(), state["read"], self.policy)
        state["embedded"] = value
        return Recall(*(part.view(*ids.shape, -1) for part in recall))


def versions(pairs: Tensor, strength: Tensor, choices: Choices) -> Tensor:
    """What a slot held after each token's write, from `pairs` [N, T, 2d] of keys and values: decayed sums of them.

    Tokens are sorted by the slot they went to, so that one recurrence covers all slots.
    """
    merged = choices.before >= 0
    old = strength.gather(1, choices.before.clamp_min(0)).masked_fill(~merged, 1.0)
    kept = (old / (old + strength)).log().masked_fill(~merged, FORGOTTEN)
    rate = (strength / (old + strength)).masked_fill(~merged, 1.0)
    order = choices.chain.argsort(dim=1, stable=True)
    sums = decayed_sum(rows(rate[:, :, None] * pairs, order[:, :, None])[:, :, 0], kept.gather(1, order))
    return rows(sums, order.argsort(dim=1)[:, :, None])[:, :, 0]


def weighed(query: Tensor, held: Tensor, stored: Tensor, strength: Tensor, readable: Tensor) -> tuple[Tensor, Tensor]:
    """What queries [..., d] read from slots [..., K, d] of `strength` [..., K], and weights; 0 if none is readable."""
    scores = (unit(held) * unit(query)[..., None, :]).sum(-1) / query.shape[-1] ** 0.5
    scores = SHARPNESS * (scores + strength.clamp_min(FAINTEST).log())
    nothing = ~readable.any(-1, keepdim=True)
    weights = scores.masked_fill(~(readable | nothing), float("-inf")).softmax(-1).masked_fill(nothing, 0.0)
    return ((weights * strength)[..., None] * stored).sum(-2), weights


class Slots(NamedTuple):
    """Slots of N sequences: keys and values [N, M, 2d], strengths, ids taken in last, and tokens of these [N, M]."""

    pairs: Tensor
    strength: Tensor
    ids: Tensor
    last: Tensor

    @classmethod
    def none(cls, like: Tensor, slots: int) -> Slots:
        """Empty slots for `like` [N, d]."""
        pairs = like.new_zeros(len(like), slots, 2 * like.shape[1])
        nothing = pairs[:, :, 0]
        return cls(pairs, nothing, nothing.long(), nothing.long() - 1)

    def cosines(self, key: Tensor, policy: Policy) -> Tensor:
        """Of `key` [N, d] with each slot [N, M]; empty ones get -inf."""
        held = self.pairs[:, :, : key.shape[1]]
        cosines = (unit(held) * unit(key)[:, None]).sum(2)
        return cosines.masked_fill(self.strength <= policy.empty_below, float("-inf"))

    def read(self, key: Tensor, policy: Policy) -> Recall:
        """What `key` [N, d] reads."""
        scores = self.cosines(key, policy) / key.shape[1] ** 0.5 + self.strength.clamp_min(FAINTEST).log()
        latest = self.last.argsort(dim=1, descending=True)
        best, order = scores.gather(1, latest).sort(dim=1, descending=True, stable=True)
        slots = latest.gather(1, order)[:, : policy.top_k]
        held, stored = rows(self.pairs, slots[:, None])[:, 0].chunk(2, dim=2)
        readable = best[:, : policy.top_k] > float("-inf")
        found, weights = weighed(key, held, stored, self.strength.gather(1, slots), readable)
        return Recall(found, weights, self.ids.gather(1, slots))

    def written(self, pair: Tensor, strength: Tensor, ids: Tensor, token: int, policy: Policy) -> Slots:
        """The slots after a write of `pair` [N, 2d], with `strength` [N], by `token` whose ids are `ids` [N]."""
        cosine, best = self.cosines(pair[:, : pair.shape[1] // 2], policy).max(1)
        merged = cosine > policy.merge_above + TIE
        empty = self.strength <= policy.empty_below
        free = where(empty.any(1), empty.int().argmax(1), self.last.argmin(1))
        places = where(merged, best, free)
        here = arange(policy.slots, device=ids.device) == places[:, None]
        old = self.strength.gather(1, places[:, None])[:, 0].masked_fill(~merged, 0.0)
        moved = self.pairs + (strength / (old + strength))[:, None, None] * (pair[:, None] - self.pairs)
        return Slots(
            where(here[:, :, None], where(merged[:, None, None], moved, pair[:, None]), self.pairs),
            where(here, old.maximum(strength)[:, None], self.strength),
            where(here, ids[:, None], self.ids),
            self.last.masked_fill(here, token),
        )
