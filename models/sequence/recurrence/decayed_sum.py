"""s_t = exp(log_decay_t) s_{t-1} + x_t: the state of triple-latent layers and slots (arXiv 2606.05175)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.sequence.recurrence.decay import between, in_chunks, since_start
from models.sequence.recurrence.forms import Form, check, chosen, full_precision

if TYPE_CHECKING:
    from torch import Tensor


@full_precision
def decayed_sum(x: Tensor, log_decay: Tensor, state: Tensor | None = None, *, form: Form | None = None) -> Tensor:
    """All states [N, T, D] from inputs `x` [N, T, D] and `log_decay` [N, T] <= 0; `state` [N, D] came before (or 0).

    The last is the state to carry on. Raises ValueError for shapes that do not fit, T = 0 among them.
    """
    check("decayed_sum", {}, x=(x, "N T D"), log_decay=(log_decay, "N T"), state=(state, "N D"))
    match chosen(form, x):
        case "reference":
            return reference(x, log_decay, state)
        case "compiled":
            from models.sequence.recurrence import compiled_decayed_sum

            return compiled_decayed_sum.decayed_sum(x, log_decay, state)
        case _:
            return chunked(x, log_decay, state)


@full_precision
def decayed_sum_step(x: Tensor, log_decay: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """One token: from `x` [N, D], `log_decay` [N] and `state` [N, D], what is read and the state, here the same."""
    state = x if state is None else log_decay.exp()[:, None] * state + x
    return state, state


def reference(x: Tensor, log_decay: Tensor, state: Tensor | None) -> Tensor:
    """One token after another."""
    import torch

    state = torch.zeros_like(x[:, 0]) if state is None else state
    decay = log_decay.exp()
    states = []
    for t in range(x.shape[1]):
        state = decay[:, t, None] * state + x[:, t]
        states.append(state)
    return torch.stack(states, dim=1)


def chunked(x: Tensor, log_decay: Tensor, state: Tensor | None) -> Tensor:
    """Within chunks one matrix product, between chunks the last state."""
    import torch

    tokens = x.shape[1]
    decays = in_chunks(log_decay)
    within = between(decays) @ in_chunks(x)
    carried = since_start(decays)[..., None]
    state = torch.zeros_like(x[:, 0]) if state is None else state
    before = []
    for last, decay in zip(within[:, :, -1].unbind(1), carried[:, :, -1].unbind(1), strict=True):
        before.append(state)
        state = last + decay * state
    states = within + carried * torch.stack(before, dim=1)[:, :, None]
    return states.flatten(1, 2)[:, :tokens]
