"""The triple-latent family: layers that remember products of what is now with a state of what was before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch.nn.functional import logsigmoid, pad

from models.sequence.layers import FeedForward, Linear, join_heads
from models.sequence.model import Block, State, taken
from models.sequence.recurrence import decayed_sum, decayed_sum_step, linear_attention, linear_attention_step
from models.sequence.recurrence.linear_attention_at import linear_attention_at

if TYPE_CHECKING:
    from torch import Tensor

    from models.mechanisms.triple_slot import TripleSlotConfig
    from models.mechanisms.triple_slot_hybrid import TripleSlotHybridConfig
    from models.sequence.lanes import Lanes
    from models.sequence.triple_config import TripleConfig


FEW = 64
"""Positions up to which reading each for itself is less work than carrying states through all tokens."""


class Factors(NamedTuple):
    """What a layer makes of its tokens, in lanes N = S·B·H of recurrences.

    state, pair [N, T, S]  what enters the state and what is paired with it, a and b, each times what its gate lets in
    left, right [N, T, S]  what the pair memory is read with
    keep, pair_keep [N, T] logarithms of the shares of the state and of the pair memory that are kept
    write [N, T]           share of the new pair that enters its memory
    """

    state: Tensor
    pair: Tensor
    left: Tensor
    right: Tensor
    keep: Tensor
    pair_keep: Tensor
    write: Tensor


class Triple(Block):
    """A triple-latent layer (arXiv 2606.05175), each of whose H heads keeps a state s and a pair memory P.

    s_t = λ_t s_{t-1} + (1 - λ_t) a_t
    P_t = γ_t P_{t-1} + (1 - γ_t) s_{t-1} b_t^T
    r_t = P_t^T left_t · right_t   (elementwise; the three factors that a read multiplies name the family)

    a, b, left and right are tanh of projections of the token, the gates λ and γ sigmoids of one number a head. So P is
    linear attention with decay γ, query left_t, key s_{t-1} and value b_t.
    """

    def __init__(
        self,
        config: TripleConfig,
        lanes: Lanes,
        read: int | None = None,
        projected: int = 4,
    ) -> None:
        """read: numbers that a head reads, as many as its state has if None; projected: factors made of the token."""
        super().__init__(lanes, config.width, config.dropout, FeedForward(lanes, config.width, config.dropout))
        self.heads = config.heads
        self.project = Linear(lanes, config.width, projected * config.heads * config.state, bias=False)
        self.gates = Linear(lanes, config.width, 2 * config.heads)
        self.out = Linear(lanes, config.heads * (read or config.state), config.width, bias=False)

    def mix(self, u: Tensor, at: Tensor | None = None) -> Tensor:
        return self.recur(u, self.project(u), at)

    def recur(self, u: Tensor, projected: Tensor, at: Tensor | None) -> Tensor:
        """What tokens `u` [S, B, T, d] read, given the projections [S, B, T, 4·H·S] of their four factors."""
        f = self.factors(u, projected)
        before = pad(decayed_sum(f.state, f.keep)[:, :-1], (0, 0, 1, 0))
        out: Tensor = self.out(join_heads(self.read(u, f, before, at), len(u), self.heads))
        return out

    def factors(self, u: Tensor, projected: Tensor) -> Factors:
        """Factors and gates of every head."""
        a, b, left, right = by_head(projected.tanh(), 4, self.heads)
        keep, pair_keep = by_head(self.gates(u), 2, self.heads).squeeze(-1)
        write = (-pair_keep).sigmoid()
        state = a * (-keep).sigmoid()[..., None]
        return Factors(state, b, left, right, logsigmoid(keep), logsigmoid(pair_keep), write)

    def read(self, u: Tensor, f: Factors, before: Tensor, at: Tensor | None) -> Tensor:
        """What heads read [N, P, ...] at positions `at`, where `before` are the states [N, T, S] before each token."""
        pairs = attend(f.left, before, f.pair * f.write[..., None], f.pair_keep, at)
        return pairs * taken(f.right, at, 1)

    def mix_next(self, u: Tensor, state: State) -> Tensor:
        return self.recur_next(u, self.project(u), state)

    def recur_next(self, u: Tensor, projected: Tensor, state: State) -> Tensor:
        """The same as `recur` for the next token `u` [S, B, d]."""
        f = Factors(*(factor[:, 0] for factor in self.factors(u[:, :, None], projected[:, :, None])))
        before = state.get("state", f.state.new_zeros(f.state.shape))
        _, state["state"] = decayed_sum_step(f.state, f.keep, before)
        read = self.read_next(u, f, before, state)
        out: Tensor = self.out(join_heads(read[:, None], len(u), self.heads))
        return out[:, :, 0]

    def read_next(self, u: Tensor, f: Factors, before: Tensor, state: State) -> Tensor:
        """The same as `read` for the next token: [N, ...]."""
        value = f.pair * f.write[:, None]
        read, state["pairs"] = linear_attention_step(f.left, before, value, f.pair_keep, state.get("pairs"))
        return read * f.right


class TripleSlot(Triple):
    """A triple-latent layer whose pair memory is M slots of two factors each (arXiv 2606.05175).

    L_m = γ L_m + (1 - γ) g_m s_{t-1};  R_m = γ R_m + (1 - γ) g_m b_t;  r_m = (left_t · L_m) (right_t · R_m)

    g is a softmax over the slots. Both factors are sums of their own, so a slot stores no pairs: it multiplies two
    decayed means. Read with left and right, both are linear attention whose values are the M numbers (1 - γ) g_m.
    """

    def __init__(self, config: TripleSlotConfig | TripleSlotHybridConfig, lanes: Lanes) -> None:
        super().__init__(config, lanes, config.slots)
        self.choose = Linear(lanes, config.width, config.heads * config.slots)

    def read(self, u: Tensor, f: Factors, before: Tensor, at: Tensor | None) -> Tensor:
        written = self.shares(u) * f.write[..., None]
        left = attend(f.left, before, written, f.pair_keep, at)
        return left * attend(f.right, f.pair, written, f.pair_keep, at)

    def shares(self, u: Tensor) -> Tensor:
        """How much of a token each slot takes [N, T, M]."""
        return by_head(self.choose(u), 1, self.heads)[0].softmax(-1)

    def read_next(self, u: Tensor, f: Factors, before: Tensor, state: State) -> Tensor:
        written = self.shares(u[:, :, None])[:, 0] * f.write[:, None]
        left, state["left"] = linear_attention_step(f.left, before, written, f.pair_keep, state.get("left"))
        right, state["right"] = linear_attention_step(f.right, f.pair, written, f.pair_keep, state.get("right"))
        return left * right


def by_head(x: Tensor, parts: int, heads: int) -> Tensor:
    """[S, B, T, parts·H·w] as `parts` of lanes of recurrences: [parts, S·B·H, T, w]."""
    lanes, batch, length, _ = x.shape
    apart = x.view(lanes, batch, length, parts, heads, -1).permute(3, 0, 1, 4, 2, 5)
    return apart.reshape(parts, lanes * batch * heads, length, -1)


def attend(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, at: Tensor | None) -> Tensor:
    """Linear attention [N, P, V] at positions `at`; a few of them read for themselves, without any state."""
    if at is not None and len(at) <= FEW:
        return linear_attention_at(taken(q, at, 1), k, v, log_decay, at)
    return taken(linear_attention(q, k, v, log_decay)[0], at, 1)
