"""The triple-latent family: layers that remember products of what is now with a state of what was before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import cat

from models.sequence.layers import FeedForward, Linear, affine
from models.sequence.model import Block, State, taken
from models.sequence.recurrence import triple_recurrence, triple_recurrence_at, triple_recurrence_step

if TYPE_CHECKING:
    from torch import Tensor

    from models.mechanisms.triple_slot import TripleSlotConfig
    from models.mechanisms.triple_slot_hybrid import TripleSlotHybridConfig
    from models.sequence.lanes import Lanes
    from models.sequence.triple_config import TripleConfig


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
        gates, choices = self.let_through(u), self.choices(u)
        if at is None:
            read = triple_recurrence(self.factors(u, source), gates, choices)
        else:
            weight = self.project.weight
            written = self.factors(u, source, weight[:, : 2 * self.size])
            asked = self.factors(taken(u, at), None, weight[:, 2 * self.size :])
            read = triple_recurrence_at(written, asked, gates, at, choices)
        out: Tensor = self.out(read.reshape(*u.shape[:2], read.shape[1], -1))
        return out

    def factors(self, u: Tensor, source: Tensor | None, weight: Tensor | None = None) -> Tensor:
        """Those of the four factors [S·B, T, 4, H, S] whose rows of the projection's `weight` are given (None: all)."""
        weight = self.project.weight if weight is None else weight
        if source is None:
            x = affine(u, weight)
        else:
            x = cat([affine(source, weight[:, : self.size]), affine(u, weight[:, self.size :])], dim=-1)
        made: Tensor = x.tanh().view(-1, x.shape[2], x.shape[3] // self.size, self.heads, self.size // self.heads)
        return made

    def let_through(self, u: Tensor) -> Tensor:
        """What both gates [S·B, T, 2, H] are the sigmoids of."""
        gates: Tensor = self.gates(u).view(-1, u.shape[2], 2, self.heads)
        return gates

    def choices(self, u: Tensor) -> Tensor | None:
        """How much of a token each slot takes [S·B, T, H, M], where there are slots."""
        return None

    def mix_next(self, u: Tensor, state: State) -> Tensor:
        return self.recur_next(u, state)

    def recur_next(self, u: Tensor, state: State, source: Tensor | None = None) -> Tensor:
        """The same as `recur` for the next token, `u` and `source` [S, B, d]."""
        now = u[:, :, None]
        factors = self.factors(now, None if source is None else source[:, :, None])
        read, after = triple_recurrence_step(factors, self.let_through(now), self.choices(now), state)
        state.update(after)
        out: Tensor = self.out(read.reshape(*u.shape[:2], -1))
        return out


class TripleSlot(Triple):
    """A triple-latent layer whose pair memory is M slots of two factors each (arXiv 2606.05175).

    L_m = γ L_m + (1 - γ) g_m s_{t-1};  R_m = γ R_m + (1 - γ) g_m b_t;  r_m = (left_t · L_m) (right_t · R_m)

    g is a softmax over the slots. Both factors are sums of their own, so a slot stores no pairs: it multiplies two
    decayed means. Read with left and right, both are linear attention whose values are the M numbers (1 - γ) g_m.
    """

    def __init__(self, config: TripleSlotConfig | TripleSlotHybridConfig, lanes: Lanes) -> None:
        super().__init__(config, lanes, config.slots)
        self.slots = config.slots
        self.choose = Linear(lanes, config.width, config.heads * config.slots)

    def choices(self, u: Tensor) -> Tensor:
        chosen: Tensor = self.choose(u).view(-1, u.shape[2], self.heads, self.slots).softmax(-1)
        return chosen
