"""A matrix state that three kinds of writes update and whose norm never exceeds 1 (UniMatrix-discovery).

The norm couples all numbers of a state, so that no matrix product covers several tokens: a plain loop over tokens, and
the same loop compiled for CPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.sequence.recurrence.forms import check, chosen

if TYPE_CHECKING:
    from torch import Tensor


def bounded_state(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    diagonal: Tensor,
    shares: Tensor,
    keep: Tensor,
    state: Tensor | None = None,
    *,
    form: Literal["reference", "compiled"] | None = None,
) -> tuple[Tensor, Tensor]:
    """S_t = M_t / max(1, |M_t|), M_t = keep_t S_{t-1} + (1 - keep_t) U_t; what is read, S_t q_t [N, T, S], and last S.

    U_t is the mixture, with `shares` [N, T, 3], of k_t v_t^T, of the diagonal matrix of `diagonal` and of
    (k_t v_t^T + v_t k_t^T) / 2; the norm is Frobenius'. `q`, `k`, `v`, `diagonal` [N, T, S]; `keep` [N, T] in 0..1;
    `state` [N, S, S] came before (or 0). Raises ValueError for shapes that do not fit, T = 0 among them.
    """
    check(
        "bounded_state", {}, q=(q, "N T S"), k=(k, "N T S"), v=(v, "N T S"), diagonal=(diagonal, "N T S"),
        shares=(shares, "N T kinds"), keep=(keep, "N T"), state=(state, "N S S"),
    )  # fmt: skip
    state = q.new_zeros(len(q), q.shape[2], q.shape[2]) if state is None else state
    if chosen(form, q) == "compiled":
        from models.sequence.compiled_bounded_state import bounded_state as compiled

        return compiled(q, k, v, diagonal, shares, keep, state)
    return reference(q, k, v, diagonal, shares, keep, state)


def reference(
    q: Tensor, k: Tensor, v: Tensor, diagonal: Tensor, shares: Tensor, keep: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """One token after another."""
    import torch

    reads = []
    for t in range(q.shape[1]):
        read, state = bounded_state_step(q[:, t], k[:, t], v[:, t], diagonal[:, t], shares[:, t], keep[:, t], state)
        reads.append(read)
    return torch.stack(reads, dim=1), state


def bounded_state_step(
    q: Tensor, k: Tensor, v: Tensor, diagonal: Tensor, shares: Tensor, keep: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """One token: what is read [N, S] and the state [N, S, S], from rows [N, S], `shares` [N, 3] and `keep` [N]."""
    outer = k[:, :, None] * v[:, None]
    plain, straight, even = shares[:, :, None, None].unbind(1)
    update = plain * outer + straight * diagonal.diag_embed() + even * (outer + outer.mT) / 2
    update = (1 - keep)[:, None, None] * update
    state = update if state is None else keep[:, None, None] * state + update
    state = state / state.square().sum((1, 2), keepdim=True).clamp_min(1.0).sqrt()
    return (state * q[:, None]).sum(2), state
