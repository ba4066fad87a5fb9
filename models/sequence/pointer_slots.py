"""A few slots of token pairs, which also point at tokens to answer with (the memory of SparsePointer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from torch import Tensor, arange, cat, no_grad, ones_like, where, zeros_like
from torch.nn import Module
from torch.nn.functional import pad

from models.sequence.layers import Linear
from models.sequence.model import State, taken
from models.sequence.recurrence import decayed_sum
from models.sequence.recurrence.associative_read import SHARPNESS, rows, unit
from models.sequence.slots import FAINTEST, TIE, Choices, Policy, choose

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes

FORGOTTEN = -1e4
"""Logarithm of the share that a slot keeps when it is opened anew: none."""


class Recall(NamedTuple):
    """What tokens read: a mean of values [S, B, ..., d], and weights [S, B, ..., K] of stored token ids."""

    value: Tensor
    weights: Tensor
    ids: Tensor


class PointerSlots(Module):
    """Token t reads the slots, by default with the embedding of t - 1, and then writes: under that, its own embedding.

    Embeddings are bare: no position, no dropout. Which slots are read and written is told in `slots.choose`. Weights
    are softmax(sharpness (cos / sqrt(d) + ln s)) over the slots read, and a slot of strength s gives s times its value.
    Pointer logits are sigmoid(w u + b) times the weights, of the token id that a slot took in last.
    """

    def __init__(
        self,
        lanes: Lanes,
        width: int,
        policy: Policy,
        *,
        write_gate: bool,
        pointer_logits: bool,
        sharpness: float = SHARPNESS,
    ) -> None:
        super().__init__()
        self.policy, self.sharpness = policy, sharpness
        self.write_gate = Linear(lanes, 2 * width, 1) if write_gate else None
        self.pointer_gate = Linear(lanes, width, 1) if pointer_logits else None

    def strengths(self, key: Tensor, value: Tensor) -> Tensor:
        """Strengths [...] of writes of `value` under `key` [..., d]."""
        if self.write_gate is None:
            return ones_like(key[..., 0])
        strength: Tensor = self.write_gate(cat([key, value], -1)).sigmoid().squeeze(-1)
        return strength

    def forward(self, ids: Tensor, value: Tensor, query: Tensor | None = None, at: Tensor | None = None) -> Recall:
        """What tokens `ids` [S, B, T], embedded `value` [S, B, T, d], read at positions `at` with `query`."""
        key = pad(value[:, :, :-1], (0, 0, 1, 0))
        strength = self.strengths(key, value).flatten(0, 1)
        key, value = key.flatten(0, 1), value.flatten(0, 1)
        asked = None if query is None else query.flatten(0, 1)
        with no_grad():
            choices = choose(key, strength, self.policy, asked)
            chosen = taken(choices.read, at, 1)
            read = chosen.clamp_min(0)
        asked = taken(key if asked is None else asked, at, 1)
        held, stored = rows(versions(cat([key, value], 2), strength, choices), read).chunk(2, dim=3)
        strengths = strength.gather(1, choices.stronger).gather(1, read.flatten(1)).view_as(read)
        found, weights = weighed(asked, held, stored, strengths, chosen >= 0, self.sharpness)
        pointed = ids.flatten(0, 1).gather(1, read.flatten(1)).view_as(read)
        return Recall(*(part.view(*ids.shape[:2], *part.shape[1:]) for part in (found, weights, pointed)))

    def next(self, ids: Tensor, value: Tensor, state: State, query: Tensor | None = None) -> Recall:
        """The same for the next token, `ids` [S, B]. Choices are made in the type of the parameters."""
        first = "slots" not in state
        if first:
            state["slots"], state["written"] = Slots.none(value.flatten(0, 1), self.policy.slots), 0
        key = zeros_like(value) if first else state["embedded"]
        slots = cast("Slots", state["slots"])
        recall = slots.read((key if query is None else query).flatten(0, 1), self.policy, self.sharpness)
        if not first:
            state["written"] += 1
            pair, strength = cat([key, value], 2).flatten(0, 1), self.strengths(key, value).flatten()
            state["slots"] = slots.written(pair, strength, ids.flatten(), state["written"], self.policy)
        state["embedded"] = value
        return Recall(*(part.view(*ids.shape, -1) for part in recall))

    def pointed(self, logits: Tensor, u: Tensor, recall: Recall) -> Tensor:
        """Logits [S, B, ..., V] with the pointer's, for tokens `u` [S, B, ..., d]."""
        if self.pointer_gate is None:
            return logits
        pointed = self.pointer_gate(u).sigmoid() * recall.weights
        return logits.scatter_add(-1, recall.ids, pointed.to(logits.dtype))


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


def weighed(
    query: Tensor, held: Tensor, stored: Tensor, strength: Tensor, readable: Tensor, sharpness: float
) -> tuple[Tensor, Tensor]:
    """What queries [..., d] read from slots [..., K, d] of `strength` [..., K], and weights; 0 if none is readable."""
    scores = (unit(held) * unit(query)[..., None, :]).sum(-1) / query.shape[-1] ** 0.5
    scores = sharpness * (scores + strength.clamp_min(FAINTEST).log())
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

    def read(self, key: Tensor, policy: Policy, sharpness: float) -> Recall:
        """What `key` [N, d] reads."""
        scores = self.cosines(key, policy) / key.shape[1] ** 0.5 + self.strength.clamp_min(FAINTEST).log()
        latest = self.last.argsort(dim=1, descending=True)
        best, order = scores.gather(1, latest).sort(dim=1, descending=True, stable=True)
        slots = latest.gather(1, order)[:, : policy.top_k]
        held, stored = rows(self.pairs, slots[:, None])[:, 0].chunk(2, dim=2)
        readable = best[:, : policy.top_k] > float("-inf")
        found, weights = weighed(key, held, stored, self.strength.gather(1, slots), readable, sharpness)
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
