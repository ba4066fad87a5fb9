"""Decayed sums for CPUs. Imported when first used: it needs torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.kernel import kernel
from models.sequence.recurrence.compiled import dot, recording, set_factors, tiny_of
from models.sequence.recurrence.parallel import Array, array, over_lanes


def decayed_sum(x: Tensor, log_decay: Tensor, state: Tensor | None) -> Tensor:
    """`models.sequence.recurrence.decayed_sum`, compiled."""
    start = torch.zeros_like(x[:, 0]) if state is None else state
    if recording(x, log_decay, state):
        states: Tensor = DecayedSum.apply(x, log_decay, start)  # type: ignore[no-untyped-call]
        return states
    return run_forward(x, log_decay, start)


class DecayedSum(torch.autograd.Function):
    """Both passes; the states are all that the backward pass needs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, log_decay: Tensor, start: Tensor) -> Tensor:
        states = run_forward(x, log_decay, start)
        ctx.save_for_backward(log_decay, start, states)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        log_decay, start, states = ctx.saved_tensors
        d_x, d_log_decay, d_start = (torch.empty_like(part).contiguous() for part in (states, log_decay, start))
        parts = [array(part) for part in (log_decay, start, states, d_states, d_x, d_log_decay, d_start)]
        over_lanes(backward, len(states), *parts, tiny_of(parts[0]))
        return d_x, d_log_decay, d_start


def run_forward(x: Tensor, log_decay: Tensor, start: Tensor) -> Tensor:
    """All states [N, T, D]."""
    states = torch.empty_like(x, memory_format=torch.contiguous_format)
    parts = [array(part) for part in (x, log_decay, start, states)]
    over_lanes(forward, len(x), *parts, tiny_of(parts[0]))
    return states


@kernel
def forward(first: int, stop: int, x: Array, log_decay: Array, start: Array, states: Array, tiny: float) -> None:
    """Write `states` [N, T, D]."""
    decay = np.empty(x.shape[1], dtype=x.dtype)
    state = np.empty(x.shape[2], dtype=x.dtype)
    for n in range(first, stop):
        state[:] = start[n]
        set_factors(log_decay[n], decay)
        for t in range(x.shape[1]):
            factor = decay[t]
            for i in range(len(state)):
                faded = factor * state[i]
                state[i] = x[n, t, i] + (faded if abs(faded) >= tiny else 0)
            states[n, t] = state


@kernel
def backward(
    first: int,
    stop: int,
    log_decay: Array,
    start: Array,
    states: Array,
    d_states: Array,
    d_x: Array,
    d_log_decay: Array,
    d_start: Array,
    tiny: float,
) -> None:
    """Write the gradients `d_x` [N, T, D], `d_log_decay` [N, T] and `d_start` [N, D]."""
    tokens, width = states.shape[1:]
    decay = np.empty(tokens, dtype=states.dtype)
    later = np.empty(width, dtype=states.dtype)
    for n in range(first, stop):
        set_factors(log_decay[n], decay)
        later[:] = 0
        for t in range(tokens - 1, -1, -1):
            factor = decay[t]
            before = states[n, t - 1] if t > 0 else start[n]
            for i in range(width):
                gradient = d_states[n, t, i] + later[i]
                d_x[n, t, i] = gradient
                faded = factor * gradient
                later[i] = faded if abs(faded) >= tiny else 0
            d_log_decay[n, t] = dot(later, before)
        d_start[n] = later
