"""Linear attention with a scalar decay: the pair memory of triple-latent layers, Mamba-2's SSD (arXiv 2405.21060)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.sequence.recurrence.decay import between, in_chunks, since_start
from models.sequence.recurrence.forms import Form, check, chosen, full_precision

if TYPE_CHECKING:
    from torch import Tensor


@full_precision
def linear_attention(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None = None, *, form: Form | None = None
) -> tuple[Tensor, Tensor]:
    """P_t = exp(log_decay_t) P_{t-1} + k_t v_t^T; what is read, r_t = P_t^T q_t [N, T, V], and the last P [N, K, V].

    `q`, `k` [N, T, K], `v` [N, T, V], `log_decay` [N, T] <= 0; `state` [N, K, V] came before (or 0).
    Raises ValueError for shapes that do not fit, T = 0 among them.
    """
    check(
        "linear_attention", {},
        q=(q, "N T K"), k=(k, "N T K"), v=(v, "N T V"), log_decay=(log_decay, "N T"), state=(state, "N K V"),
    )  # fmt: skip
    match chosen(form, q):
        case "reference":
            return reference(q, k, v, log_decay, state)
        case "compiled":
            from models.sequence.recurrence import compiled_linear_attention

            return compiled_linear_attention.linear_attention(q, k, v, log_decay, state)
        case _:
            return chunked(q, k, v, log_decay, state)


@full_precision
def linear_attention_step(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """One token: what is read [N, V] and the state [N, K, V], from `q`, `k` [N, K], `v` [N, V], `log_decay` [N]."""
    written = k[:, :, None] * v[:, None]
    state = written if state is None else log_decay.exp()[:, None, None] * state + written
    return (state * q[:, :, None]).sum(1), state


def reference(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """One token after another."""
    import torch

    state = q.new_zeros(len(q), k.shape[2], v.shape[2]) if state is None else state
    decay = log_decay.exp()
    reads = []
    for t in range(q.shape[1]):
        state = decay[:, t, None, None] * state + k[:, t, :, None] * v[:, t, None]
        reads.append((state * q[:, t, :, None]).sum(1))
    return torch.stack(reads, dim=1), state


def chunked(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """Within chunks masked matrix products, between chunks the state."""
    import torch

    tokens = q.shape[1]
    q, k, v, log_decay = (in_chunks(part) for part in (q, k, v, log_decay))
    decays, carried = between(log_decay), since_start(log_decay)
    added = (k * decays[..., -1, :, None]).mT @ v
    state = torch.zeros_like(added[:, 0]) if state is None else state
    before = []
    for part, decay in zip(added.unbind(1), carried[..., -1, None, None].unbind(1), strict=True):
        before.append(state)
        state = part + decay * state
    read = (q @ k.mT * decays) @ v + (q * carried[..., None]) @ torch.stack(before, dim=1)
    return read.flatten(1, 2)[:, :tokens], state
