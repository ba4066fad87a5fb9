"""Gated delta rule: a memory that decays and corrects what a key stood for (Gated DeltaNet, arXiv 2412.06464)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.sequence.recurrence.decay import between, in_chunks, since_start
from models.sequence.recurrence.forms import Form, check, chosen, full_precision

if TYPE_CHECKING:
    from torch import Tensor


@full_precision
def gated_delta(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor,
    beta: Tensor,
    state: Tensor | None = None,
    *,
    form: Form | None = None,
) -> tuple[Tensor, Tensor]:
    """P_t = exp(log_decay_t) (I - beta_t k_t k_t^T) P_{t-1} + beta_t k_t v_t^T; r_t = P_t^T q_t, and the last P.

    `q`, `k` [N, T, K], `v` [N, T, V], `log_decay` [N, T] <= 0, `beta` [N, T]; `state` [N, K, V] came before (or 0).
    Reads are [N, T, V]. P stays bounded where 0 <= beta |k|^2 <= 2: normalise the keys.
    Raises ValueError for shapes that do not fit, T = 0 among them.
    """
    check(
        "gated_delta", {}, q=(q, "N T K"), k=(k, "N T K"), v=(v, "N T V"),
        log_decay=(log_decay, "N T"), beta=(beta, "N T"), state=(state, "N K V"),
    )  # fmt: skip
    match chosen(form, q):
        case "reference":
            return reference(q, k, v, log_decay, beta, state)
        case "compiled":
            from models.sequence.recurrence import compiled_gated_delta

            return compiled_gated_delta.gated_delta(q, k, v, log_decay, beta, state)
        case _:
            return chunked(q, k, v, log_decay, beta, state)


@full_precision
def gated_delta_step(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """One token: what is read [N, V] and the state [N, K, V]; `q`, `k` [N, K], `v` [N, V], `log_decay`, `beta` [N]."""
    if state is None:
        state = k.new_zeros(*k.shape, v.shape[1])
    state = log_decay.exp()[:, None, None] * state
    correction = beta[:, None] * (v - (state * k[:, :, None]).sum(1))
    state = state + k[:, :, None] * correction[:, None]
    return (state * q[:, :, None]).sum(1), state


def reference(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """One token after another."""
    import torch

    state = q.new_zeros(len(q), k.shape[2], v.shape[2]) if state is None else state
    decay = log_decay.exp()
    reads = []
    for t in range(q.shape[1]):
        state = decay[:, t, None, None] * state
        correction = beta[:, t, None] * (v[:, t] - (state * k[:, t, :, None]).sum(1))
        state = state + k[:, t, :, None] * correction[:, None]
        reads.append((state * q[:, t, :, None]).sum(1))
    return torch.stack(reads, dim=1), state


def chunked(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Linear attention within chunks to corrections u_t = beta_t (v_t - exp(log_decay_t) P_{t-1}^T k_t), Sec. 3.3.

    A chunk's corrections solve a unit lower triangular system whose right side is linear in the state before it.
    """
    import torch

    tokens = q.shape[1]
    q, k, v, log_decay, beta = (in_chunks(part) for part in (q, k, v, log_decay, beta))
    decays, carried = between(log_decay), since_start(log_decay)
    overlap = (beta[..., None] * decays * (k @ k.mT)).tril(-1)
    sides = torch.cat([beta[..., None] * v, (beta * carried)[..., None] * k], dim=-1)
    solved = torch.linalg.solve_triangular(overlap, sides, upper=False, unitriangular=True)
    apart, through = solved.split([v.shape[-1], k.shape[-1]], dim=-1)
    to_end = k * decays[..., -1, :, None]
    state = k.new_zeros(len(k), k.shape[-1], v.shape[-1]) if state is None else state
    before, corrections = [], []
    for c in range(k.shape[1]):
        before.append(state)
        corrections.append(apart[:, c] - through[:, c] @ state)
        state = carried[:, c, -1, None, None] * state + to_end[:, c].mT @ corrections[-1]
    read = (q @ k.mT * decays) @ torch.stack(corrections, dim=1)
    read = read + (q * carried[..., None]) @ torch.stack(before, dim=1)
    return read.flatten(1, 2)[:, :tokens], state
