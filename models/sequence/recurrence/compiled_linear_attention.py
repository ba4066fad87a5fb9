"""Linear attention for CPUs: the state stays in a core's cache, its rows are what one instruction works on.

Imported when first used: it needs torch. The forward pass keeps the state before each chunk of tokens; the backward
pass makes the states within a chunk again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.kernel import kernel
from models.sequence.recurrence.compiled import chunk_of, drop_tiny, recording, remake, set_factors, tiny_of
from models.sequence.recurrence.parallel import Array, array, over_lanes


def linear_attention(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """`models.sequence.recurrence.linear_attention`, compiled."""
    if recording(q, k, v, log_decay, state):
        read, end = LinearAttention.apply(q, k, v, log_decay, state)  # type: ignore[no-untyped-call]
        return read, end
    read, end, _, _ = run_forward(q, k, v, log_decay, state, keep=False)
    return read, end


class LinearAttention(torch.autograd.Function):
    """Both passes; every tensor that may need a gradient gets one."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        read, end, kept, ctx.chunk = run_forward(q, k, v, log_decay, state, keep=True)
        ctx.save_for_backward(q, k, v, log_decay, kept)
        return read, end

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_read: Tensor, d_end: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, log_decay, kept = ctx.saved_tensors
        inputs = [array(part) for part in (q, k, v, log_decay)]
        d_inputs = [torch.empty_like(part, memory_format=torch.contiguous_format) for part in (q, k, v, log_decay)]
        d_state = d_end.clone(memory_format=torch.contiguous_format)
        over_lanes(
            backward, len(q), *inputs, array(kept), array(d_read), array(d_state), *map(array, d_inputs),
            ctx.chunk, tiny_of(inputs[0]),
        )  # fmt: skip
        return *d_inputs, d_state if ctx.needs_input_grad[4] else None


def run_forward(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None, keep: bool
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Reads, the last state, states before each chunk [N, T / chunk, K, V] (none unless `keep`), tokens a chunk."""
    lanes, tokens, width = k.shape
    size = width * v.shape[2]
    chunk = chunk_of(size * k.element_size(), tokens)
    end = q.new_zeros(lanes, width, v.shape[2]) if state is None else state.clone(memory_format=torch.contiguous_format)
    kept = q.new_empty(lanes, -(-tokens // chunk) if keep else 0, *end.shape[1:])
    read = torch.empty_like(v, memory_format=torch.contiguous_format)
    parts = [array(part) for part in (q, k, v, log_decay, end.detach(), kept, read)]
    over_lanes(forward, lanes, *parts, chunk, tiny_of(parts[0]))
    return read, end, kept, chunk


@kernel
def forward(
    first: int,
    stop: int,
    q: Array,
    k: Array,
    v: Array,
    log_decay: Array,
    state: Array,
    kept: Array,
    read: Array,
    chunk: int,
    tiny: float,
) -> None:
    """Write `read` [N, T, V] and, every `chunk` tokens, `kept`; `state` [N, K, V] goes from the first to the last."""
    decay = np.empty(k.shape[1], dtype=k.dtype)
    for n in range(first, stop):
        set_factors(log_decay[n], decay)
        read_lane(q[n], k[n], v[n], decay, state[n], kept[n], read[n], chunk, tiny)


@kernel
def read_lane(
    q: Array, k: Array, v: Array, decay: Array, memory: Array, kept: Array, read: Array, chunk: int, tiny: float
) -> None:
    """The same for one lane, whose factors `decay` [T] are known; `memory` [K, V] goes from the first to the last."""
    sums = np.empty(v.shape[1], dtype=k.dtype)
    for t in range(k.shape[0]):
        if t % chunk == 0:
            drop_tiny(memory, tiny)
            if len(kept) > 0:
                kept[t // chunk] = memory
        factor, value = decay[t], v[t]
        sums[:] = 0
        for i in range(k.shape[1]):
            key, query = k[t, i], q[t, i]
            for j in range(len(sums)):
                x = factor * memory[i, j] + key * value[j]
                memory[i, j] = x
                sums[j] += query * x
        read[t] = sums


@kernel
def backward(
    first: int,
    stop: int,
    q: Array,
    k: Array,
    v: Array,
    log_decay: Array,
    kept: Array,
    d_read: Array,
    d_state: Array,
    d_q: Array,
    d_k: Array,
    d_v: Array,
    d_log_decay: Array,
    chunk: int,
    tiny: float,
) -> None:
    """Write the gradients; `d_state` [N, K, V] goes from that of the last state to that of the first."""
    decay = np.empty(k.shape[1], dtype=k.dtype)
    for n in range(first, stop):
        set_factors(log_decay[n], decay)
        lane_gradients(
            q[n], k[n], v[n], decay, kept[n], d_read[n], d_state[n], d_q[n], d_k[n], d_v[n], d_log_decay[n], chunk, tiny
        )


@kernel
def lane_gradients(
    q: Array,
    k: Array,
    v: Array,
    decay: Array,
    kept: Array,
    d_read: Array,
    d_state: Array,
    d_q: Array,
    d_k: Array,
    d_v: Array,
    d_log_decay: Array,
    chunk: int,
    tiny: float,
) -> None:
    """The same for one lane, whose factors `decay` [T] are known."""
    tokens, width = k.shape
    states = np.empty((chunk + 1, v.shape[1], width), dtype=k.dtype)
    turned = np.empty((v.shape[1], width), dtype=k.dtype)
    turned[:] = d_state.T
    for start in range((len(kept) - 1) * chunk, -1, -chunk):
        end = min(start + chunk, tokens)
        drop_tiny(d_state, tiny)
        drop_tiny(turned, tiny)
        states[0] = kept[start // chunk].T
        remake(k[start:end], v[start:end], decay[start:end], states, d_read[start:end], d_q[start:end])
        gradients_by_rows(q[start:end], k[start:end], decay[start:end], d_read[start:end], d_state, d_v[start:end])
        gradients_by_columns(
            q[start:end], v[start:end], decay[start:end], states, d_read[start:end], turned, d_k[start:end],
            d_log_decay[start:end],
        )  # fmt: skip


@kernel
def gradients_by_rows(q: Array, k: Array, decay: Array, d_read: Array, d_state: Array, d_v: Array) -> None:
    """Write `d_v` of C tokens; `d_state` [K, V] goes from the gradient of the state after them to that before them."""
    sums = np.empty(d_v.shape[1], dtype=q.dtype)
    for t in range(q.shape[0] - 1, -1, -1):
        sums[:] = 0
        factor, d_row = decay[t], d_read[t]
        for i in range(q.shape[1]):
            query, key = q[t, i], k[t, i]
            for j in range(len(sums)):
                x = d_state[i, j] + query * d_row[j]
                d_state[i, j] = factor * x
                sums[j] += key * x
        d_v[t] = sums


@kernel
def gradients_by_columns(
    q: Array, v: Array, decay: Array, states: Array, d_read: Array, turned: Array, d_k: Array, d_log_decay: Array
) -> None:
    """The same for `d_k` and `d_log_decay`, with the transposed gradient `turned` [V, K]."""
    width = q.shape[1]
    key_sums, decay_sums = np.empty(width, dtype=q.dtype), np.empty(width, dtype=q.dtype)
    for t in range(q.shape[0] - 1, -1, -1):
        key_sums[:] = 0
        decay_sums[:] = 0
        factor, query = decay[t], q[t]
        for j in range(v.shape[1]):
            value, d_row = v[t, j], d_read[t, j]
            for i in range(width):
                x = turned[j, i] + d_row * query[i]
                turned[j, i] = factor * x
                key_sums[i] += value * x
            for i in range(width):
                decay_sums[i] += turned[j, i] * states[t, j, i]
        d_k[t] = key_sums
        d_log_decay[t] = decay_sums.sum()
