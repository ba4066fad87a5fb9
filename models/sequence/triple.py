"""The triple-latent family: layers that remember products of what is now with a state of what was before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch.nn.functional import logsigmoid, pad

from models.sequence.layers import FeedForward, Linear, affine, join_heads
from models.sequence.model import Block, State, taken
from models.sequence.recurrence import decayed_sum, decayed_sum_step, linear_attention, linear_attention_step
from models.sequence.recurrence.linear_attention_at import linear_attention_at

if TYPE_CHECKING:
    from torch import Tensor

    from models.mechanisms.triple_slot import TripleSlotConfig
    from models.mechanisms.triple_slot_hybrid import TripleSlotHybridConfig
    from models.sequence.lanes import Lanes
    from models.sequence.triple_config import TripleConfig


FEW = 8
"""Positions up to which reading each for itself takes less time than carrying states through all tokens.

Both ways on one core, with 16 numbers a state: 8 positions cost as much as all at 128, 512 and 1,024 tokens; one, half.
"""


class Written(NamedTuple):
    """What a layer's memories take in of its tokens, in lanes N = S·B·H of recurrences.

    state [N, T, S]        what enters the state: the factor a, times what its gate lets in
    pair [N, T, S]         what the state is paired with: the factor b
    share [N, T]           how much of the pair its gate lets in
    keep, pair_keep [N, T] logarithms of the shares of the state and of the pair memory that are kept
    """

    state: Tensor
    pair: Tensor
    share: Tensor
    keep: Tensor
    pair_keep: Tensor


class Triple(Block):
    """A triple-latent layer (arXiv 2606.05175), each of whose H heads keeps a state s and a pair memory P.

    s_t = λ_t s_{t-1} + (1 - λ_t) a_t
    P_t = γ_t P_{t-1} + (1 - γ_t) s_{t-1} b_t^T
    r_t = P_t^T left_t · right_t   (elementwise; the three factors that a read multiplies name the family)

    a, b, left and right are tanh of projections of the token, the gates λ and γ sigmoids of one number a head. So P is
    linear attention with decay γ, query left_t, key s_{t-1} and value b_t.
    """

    def __init__(self, config: TripleConfig, lanes: Lanes, read: int | None = None) -> None:
        """read: numbers that a head reads, as many as its state has if None."""
        super().__init__(lanes, config.width, config.dropout, FeedForward(lanes, config.width, config.dropout))
        self.heads, self.size = config.heads, config.heads * config.state
        self.project = Linear(lanes, config.width, 4 * self.size, bias=False)
        self.gates = Linear(lanes, config.width, 2 * config.heads)
        self.out = Linear(lanes, config.heads * (read or config.state), config.width, bias=False)

    def mix(self, u: Tensor, at: Tensor | None = None) -> Tensor:
        return self.recur(u, at)

    def recur(self, u: Tensor, at: Tensor | None = None, source: Tensor | None = None) -> Tensor:
        """What tokens `u` [S, B, T, d] read at positions `at`.

        source [S, B, T, d]: what states are made of, the same tokens if None
        """
        a, b, left, right = self.factors(u, at, source)
        w = self.written(u, a, b)
        before = pad(decayed_sum(w.state, w.keep)[:, :-1], (0, 0, 1, 0))
        out: Tensor = self.out(join_heads(self.read(u, w, before, left, right, at), len(u), self.heads))
        return out

    def factors(self, u: Tensor, at: Tensor | None, source: Tensor | None) -> list[Tensor]:
        """a and b [N, T, S] of all tokens, left and right [N, P, S] of those at positions `at`."""
        if at is None and source is None:
            return list(by_head(self.project(u).tanh(), 4, self.heads))
        a, b, asked = self.project.weight.tensor_split((self.size, 2 * self.size), dim=1)
        made = [affine(u if source is None else source, a), affine(u, b), affine(taken(u, at), asked)]
        return [part for x in made for part in by_head(x.tanh(), x.shape[3] // self.size, self.heads)]

    def written(self, u: Tensor, a: Tensor, b: Tensor) -> Written:
        """What tokens add to the memories of every head, and how much of what is there they keep."""
        keep, pair_keep = by_head(self.gates(u), 2, self.heads).squeeze(-1)
        state = a * (-keep).sigmoid()[..., None]
        return Written(state, b, (-pair_keep).sigmoid(), logsigmoid(keep), logsigmoid(pair_keep))

    def read(self, u: Tensor, w: Written, before: Tensor, left: Tensor, right: Tensor, at: Tensor | None) -> Tensor:
        """What heads read [N, P, ...] at positions `at`, where `before` are the states [N, T, S] before each token."""
        return right * attend(left, before, w.pair * w.share[..., None], w.pair_keep, at)

    def mix_next(self, u: Tensor, state: State) -> Tensor:
        return self.recur_next(u, state)

    def recur_next(self, u: Tensor, state: State, source: Tensor | None = None) -> Tensor:
        """The same as `recur` for the next token, `u` and `source` [S, B, d]."""
        now = u[:, :, None]
        a, b, left, right = self.factors(now, None, None if source is None else source[:, :, None])
        w, left, right = Written(*(part[:, 0] for part in self.written(now, a, b))), left[:, 0], right[:, 0]
        before = state.get("state", w.state.new_zeros(w.state.shape))
        _, state["state"] = decayed_sum_step(w.state, w.keep, before)
        read = self.read_next(u, w, before, left, right, state)
        out: Tensor = self.out(join_heads(read[:, None], len(u), self.heads))
        return out[:, :, 0]

    def read_next(self, u: Tensor, w: Written, before: Tensor, left: Tensor, right: Tensor, state: State) -> Tensor:
        """The same as `read` for the next token: [N, ...]."""
        value = w.pair * w.share[:, None]
        read, state["pairs"] = linear_attention_step(left, before, value, w.pair_keep, state.get("pairs"))
        return right * read


class TripleSlot(Triple):
    """A triple-latent layer whose pair memory is M slots of two factors each (arXiv 2606.05175).

    L_m = γ L_m + (1 - γ) g_m s_{t-1};  R_m = γ R_m + (1 - γ) g_m b_t;  r_m = (left_t · L_m) (right_t · R_m)

    g is a softmax over the slots. Both factors are sums of their own, so a slot stores no pairs: it multiplies two
    decayed means. Read with left and right, both are linear attention whose values are the M numbers (1 - γ) g_m.
    """

    def __init__(self, config: TripleSlotConfig | TripleSlotHybridConfig, lanes: Lanes) -> None:
        super().__init__(config, lanes, config.slots)
        self.choose = Linear(lanes, config.width, config.heads * config.slots)

    def read(self, u: Tensor, w: Written, before: Tensor, left: Tensor, right: Tensor, at: Tensor | None) -> Tensor:
        taken_in = self.shares(u) * w.share[..., None]
        return attend(left, before, taken_in, w.pair_keep, at) * attend(right, w.pair, taken_in, w.pair_keep, at)

    def shares(self, u: Tensor) -> Tensor:
        """How much of a token each slot takes [N, T, M]."""
        return by_head(self.choose(u), 1, self.heads)[0].softmax(-1)

    def read_next(self, u: Tensor, w: Written, before: Tensor, left: Tensor, right: Tensor, state: State) -> Tensor:
        taken_in = self.shares(u[:, :, None])[:, 0] * w.share[:, None]
        first, state["left"] = linear_attention_step(left, before, taken_in, w.pair_keep, state.get("left"))
        second, state["right"] = linear_attention_step(right, w.pair, taken_in, w.pair_keep, state.get("right"))
        return first * second


def by_head(x: Tensor, parts: int, heads: int) -> Tensor:
    """[S, B, T, parts·H·w] as `parts` of lanes of recurrences: [parts, S·B·H, T, w]."""
    lanes, batch, length, _ = x.shape
    apart = x.view(lanes, batch, length, parts, heads, -1).permute(3, 0, 1, 4, 2, 5)
    return apart.reshape(parts, lanes * batch * heads, length, -1)


def attend(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, at: Tensor | None) -> Tensor:
    """Linear attention with `q` [N, P, K] at positions `at`: a few of them read for themselves, without any state."""
    if at is None:
        return linear_attention(q, k, v, log_decay)[0]
    if len(at) <= FEW:
        return linear_attention_at(q, k, v, log_decay, at)
    everywhere = q.new_zeros(k.shape).index_copy(1, at, q)
    return linear_attention(everywhere, k, v, log_decay)[0].index_select(1, at)
