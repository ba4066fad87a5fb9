"""The recurrences of triple-latent layers whole, from factors and gates as projections give them (arXiv 2606.05175)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from models.sequence.recurrence.decayed_sum import decayed_sum, decayed_sum_step
from models.sequence.recurrence.forms import Form, check, chosen, full_precision
from models.sequence.recurrence.linear_attention import linear_attention, linear_attention_step
from models.sequence.recurrence.linear_attention_at import linear_attention_at

if TYPE_CHECKING:
    from torch import Tensor

FEW = 8
"""Positions up to which reading each for itself takes less time than carrying states through all tokens.

Both ways on one core, with 16 numbers a state: 8 positions cost as much as all at 128, 512 and 1,024 tokens; one, half.
"""


class Written(NamedTuple):
    """What memories take in of tokens, and how much of what is there they keep, in lanes N of recurrences.

    state [N, T, S]        what enters the state: the factor a, times what its gate lets in
    pair [N, T, S]         the factor b
    value [N, T, V]        what memories store under the state: b, or under both the choices of slots, times its share
    keep, pair_keep [N, T] logarithms of the shares of the state and of the memories that are kept
    """

    state: Tensor
    pair: Tensor
    value: Tensor
    keep: Tensor
    pair_keep: Tensor


@full_precision
def triple_recurrence(
    factors: Tensor, gates: Tensor, choices: Tensor | None = None, *, form: Form | None = None
) -> Tensor:
    """What heads read [R, T, H, S] of products of what is now with a state of what was before.

    With the four `factors` [R, T, 4, H, S] a, b, left, right, and λ, γ the sigmoids of the two `gates` [R, T, 2, H]:

    s_t = λ_t s_{t-1} + (1 - λ_t) a_t;  P_t = γ_t P_{t-1} + (1 - γ_t) s_{t-1} b_t^T;  r_t = P_t^T left_t · right_t

    With `choices` g [R, T, H, M], M slots of two factors each take the place of P, and reads are [R, T, H, M]:

    L_m = γ L_m + (1 - γ) g_m s_{t-1};  R_m = γ R_m + (1 - γ) g_m b_t;  r_m = (left_t · L_m) (right_t · R_m)

    Both factors are sums of their own, so a slot stores no pairs: it multiplies two decayed means.
    Raises ValueError for shapes that do not fit, T = 0 among them.
    """
    check(
        "triple_recurrence", {"four": 4, "two": 2},
        factors=(factors, "R T four H S"), gates=(gates, "R T two H"), choices=(choices, "R T H M"),
    )  # fmt: skip
    how = chosen(form, factors)
    if how == "compiled":
        from models.sequence.recurrence import compiled_triple

        return compiled_triple.triple_recurrence(factors, gates, choices)

    def attend(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:
        return linear_attention(q, k, v, log_decay, form=how)[0]

    a, b, left, right = by_head(factors)
    w = written(a, b, gates, choices)
    return by_token(read(w, states_before(w, how), left, right, choices is not None, attend), len(factors))


@full_precision
def triple_recurrence_at(
    factors: Tensor, asked: Tensor, gates: Tensor, at: Tensor, choices: Tensor | None = None
) -> Tensor:
    """Reads [R, P, H, S] of `triple_recurrence` at positions `at` [P], each in 0..T-1.

    `factors` [R, T, 2, H, S] are a and b of all tokens, `asked` [R, P, 2, H, S] left and right at those positions.
    """
    check(
        "triple_recurrence_at", {"two": 2, "P": len(at)},
        factors=(factors, "R T two H S"), asked=(asked, "R P two H S"), gates=(gates, "R T two H"),
        choices=(choices, "R T H M"),
    )  # fmt: skip

    def attend(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:
        if len(at) <= FEW:
            return linear_attention_at(q, k, v, log_decay, at)
        everywhere = q.new_zeros(k.shape).index_copy(1, at, q)
        return linear_attention(everywhere, k, v, log_decay)[0].index_select(1, at)

    (a, b), (left, right) = by_head(factors), by_head(asked)
    w = written(a, b, gates, choices)
    return by_token(read(w, states_before(w, None), left, right, choices is not None, attend), len(factors))


@full_precision
def triple_recurrence_step(
    factors: Tensor, gates: Tensor, choices: Tensor | None, state: Mapping[str, Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    """One token, T = 1: what is read [R, 1, H, ...], and what to carry on in place of `state` (at first empty)."""
    a, b, left, right = by_head(factors)
    w = written(a, b, gates, choices)
    before = state.get("state", a.new_zeros(a[:, 0].shape))
    after = {"state": decayed_sum_step(w.state[:, 0], w.keep[:, 0], before)[1]}
    names = iter(("left", "right"))

    def attend(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:
        name = next(names)
        seen, after[name] = linear_attention_step(q[:, 0], k[:, 0], v[:, 0], log_decay[:, 0], state.get(name))
        return seen[:, None]

    return by_token(read(w, before[:, None], left, right, choices is not None, attend), len(factors)), after


def written(a: Tensor, b: Tensor, gates: Tensor, choices: Tensor | None) -> Written:
    """What tokens of factors `a`, `b` [N, T, S] add to memories."""
    from torch.nn.functional import logsigmoid

    keep, pair_keep = by_head(gates[..., None]).squeeze(-1)
    value = b if choices is None else by_head(choices[:, :, None])[0]
    state, value = (part * (-gate).sigmoid()[..., None] for part, gate in ((a, keep), (value, pair_keep)))
    return Written(state, b, value, logsigmoid(keep), logsigmoid(pair_keep))


def states_before(w: Written, form: Form | None) -> Tensor:
    """The state [N, T, S] before each token."""
    from torch.nn.functional import pad

    return pad(decayed_sum(w.state, w.keep, form=form)[:, :-1], (0, 0, 1, 0))


def read(w: Written, before: Tensor, left: Tensor, right: Tensor, slots: bool, attend: Callable[..., Tensor]) -> Tensor:
    """What heads read [N, P, ...] with `left` and `right` [N, P, S], as `attend(q, k, v, log_decay)` reads a memory."""
    first = attend(left, before, w.value, w.pair_keep)
    return first * (attend(right, w.pair, w.value, w.pair_keep) if slots else right)


def by_head(x: Tensor) -> Tensor:
    """[R, T, parts, H, w] as `parts` of lanes of recurrences: [parts, R·H, T, w]."""
    return x.permute(2, 0, 3, 1, 4).flatten(1, 2)


def by_token(x: Tensor, rows: int) -> Tensor:
    """Lanes of recurrences [R·H, T, w] as [R, T, H, w]."""
    lanes, tokens, width = x.shape
    return x.view(rows, lanes // rows, tokens, width).transpose(1, 2)
