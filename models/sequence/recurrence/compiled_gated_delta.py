"""The gated delta rule for CPUs: linear attention to the corrections that each token makes.

Imported when first used: it needs torch. The forward pass keeps the state before each chunk of tokens and what the
state was wrong by at each, e_t = v_t - exp(log_decay_t) P_{t-1}^T k_t; the backward pass makes the states within a
chunk again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.kernel import kernel
from models.sequence.recurrence.compiled import chunk_of, dot, drop_tiny, recording, remake, set_factors, tiny_of
from models.sequence.recurrence.parallel import Array, array, over_lanes


class Forward(NamedTuple):
    """read, errors [N, T, V], end [N, K, V], and kept [N, T / chunk, K, V]: states before each `chunk` tokens."""

    read: Tensor
    end: Tensor
    errors: Tensor
    kept: Tensor
    chunk: int


def gated_delta(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`models.sequence.recurrence.gated_delta`, compiled."""
    if recording(q, k, v, log_decay, beta, state):
        read, end = GatedDelta.apply(q, k, v, log_decay, beta, state)  # type: ignore[no-untyped-call]
        return read, end
    done = run_forward(q, k, v, log_decay, beta, state, keep=False)
    return done.read, done.end


class GatedDelta(torch.autograd.Function):
    """Both passes; every tensor that may need a gradient gets one."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        done = run_forward(q, k, v, log_decay, beta, state, keep=True)
        ctx.save_for_backward(q, k, v, log_decay, beta, done.errors, done.kept)
        ctx.chunk = done.chunk
        return done.read, done.end

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_read: Tensor, d_end: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, errors, kept = ctx.saved_tensors
        d_inputs = [torch.empty_like(part, memory_format=torch.contiguous_format) for part in inputs]
        d_state = d_end.clone(memory_format=torch.contiguous_format)
        parts = [array(part) for part in (*inputs, errors, kept, d_read, d_state, *d_inputs)]
        over_lanes(backward, len(kept), *parts, ctx.chunk, tiny_of(parts[0]))
        return *d_inputs, d_state if ctx.needs_input_grad[5] else None


def run_forward(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor | None, keep: bool
) -> Forward:
    """What is read, and what the backward pass needs if it is to `keep` that."""
    lanes, tokens, width = k.shape
    chunk = chunk_of(width * v.shape[2] * k.element_size(), tokens)
    end = q.new_zeros(lanes, width, v.shape[2]) if state is None else state.clone(memory_format=torch.contiguous_format)
    read = torch.empty_like(v, memory_format=torch.contiguous_format)
    errors = torch.empty_like(read if keep else read[:, :0])
    kept = q.new_empty(lanes, -(-tokens // chunk) if keep else 0, *end.shape[1:])
    parts = [array(part) for part in (q, k, v, log_decay, beta, end, kept, errors, read)]
    over_lanes(forward, lanes, *parts, chunk, tiny_of(parts[0]))
    return Forward(read, end, errors, kept, chunk)


@kernel
def forward(
    first: int,
    stop: int,
    q: Array,
    k: Array,
    v: Array,
    log_decay: Array,
    beta: Array,
    state: Array,
    kept: Array,
    errors: Array,
    read: Array,
    chunk: int,
    tiny: float,
) -> None:
    """Write `read` [N, T, V] and, if any are wanted, `kept` and `errors`; `state` [N, K, V] goes from first to last."""
    tokens, width = k.shape[1:]
    decay = np.empty(tokens, dtype=k.dtype)
    known, sums = np.empty(v.shape[2], dtype=k.dtype), np.empty(v.shape[2], dtype=k.dtype)
    for n in range(first, stop):
        memory = state[n]
        set_factors(log_decay[n], decay)
        for t in range(tokens):
            if t % chunk == 0:
                drop_tiny(memory, tiny)
                if kept.shape[1] > 0:
                    kept[n, t // chunk] = memory
            factor = decay[t]
            known[:] = 0
            for i in range(width):
                key = k[n, t, i]
                for j in range(len(known)):
                    x = factor * memory[i, j]
                    memory[i, j] = x
                    known[j] += key * x
            for j in range(len(known)):
                known[j] = v[n, t, j] - known[j]
            if errors.shape[1] > 0:
                errors[n, t] = known
            sums[:] = 0
            for i in range(width):
                key, query = beta[n, t] * k[n, t, i], q[n, t, i]
                for j in range(len(sums)):
                    x = memory[i, j] + key * known[j]
                    memory[i, j] = x
                    sums[j] += query * x
            read[n, t] = sums


@kernel
def backward(
    first: int,
    stop: int,
    q: Array,
    k: Array,
    v: Array,
    log_decay: Array,
    beta: Array,
    errors: Array,
    kept: Array,
    d_read: Array,
    d_state: Array,
    d_q: Array,
    d_k: Array,
    d_v: Array,
    d_log_decay: Array,
    d_beta: Array,
    chunk: int,
    tiny: float,
) -> None:
    """Write the gradients; `d_state` [N, K, V] goes from that of the last state to that of the first."""
    tokens, width = k.shape[1:]
    height = v.shape[2]
    decay = np.empty(tokens, dtype=k.dtype)
    states = np.empty((chunk + 1, height, width), dtype=k.dtype)
    turned = np.empty((height, width), dtype=k.dtype)
    written, d_known = np.empty((chunk, height), dtype=k.dtype), np.empty((chunk, height), dtype=k.dtype)
    for n in range(first, stop):
        turned[:] = d_state[n].T
        set_factors(log_decay[n], decay)
        for start in range((kept.shape[1] - 1) * chunk, -1, -chunk):
            end = min(start + chunk, tokens)
            drop_tiny(d_state[n], tiny)
            drop_tiny(turned, tiny)
            states[0] = kept[n, start // chunk].T
            for t in range(start, end):
                for j in range(height):
                    written[t - start, j] = beta[n, t] * errors[n, t, j]
            remake(k[n, start:end], written, decay[start:end], states, d_read[n, start:end], d_q[n, start:end])
            gradients_by_rows(
                q[n, start:end], k[n, start:end], v[n, start:end], decay[start:end], beta[n, start:end],
                errors[n, start:end], d_read[n, start:end], d_state[n], d_known, d_v[n, start:end],
                d_beta[n, start:end], d_log_decay[n, start:end],
            )  # fmt: skip
            gradients_by_columns(
                q[n, start:end], k[n, start:end], written, decay[start:end], states, d_read[n, start:end], d_known,
                turned, d_k[n, start:end], d_log_decay[n, start:end],
            )  # fmt: skip


@kernel
def gradients_by_rows(
    q: Array,
    k: Array,
    v: Array,
    decay: Array,
    beta: Array,
    errors: Array,
    d_read: Array,
    d_state: Array,
    d_known: Array,
    d_v: Array,
    d_beta: Array,
    d_log_decay: Array,
) -> None:
    """Gradients of C tokens through their corrections: `d_v`, `d_beta`, `d_known` [C, V] of what the keys stood for.

    `d_log_decay` [C] is begun; `d_state` [K, V] goes from the gradient of the state after these tokens to that before.
    """
    sums = np.empty(d_v.shape[1], dtype=q.dtype)
    for t in range(q.shape[0] - 1, -1, -1):
        sums[:] = 0
        factor, strength, d_row = decay[t], beta[t], d_read[t]
        for i in range(q.shape[1]):
            query, key = q[t, i], k[t, i]
            for j in range(len(sums)):
                x = d_state[i, j] + query * d_row[j]
                d_state[i, j] = x
                sums[j] += key * x
        d_beta[t] = dot(sums, errors[t])
        known = d_known[t]
        for j in range(len(sums)):
            d_v[t, j] = strength * sums[j]
            known[j] = errors[t, j] - v[t, j]
        d_log_decay[t] = dot(d_v[t], known)
        for j in range(len(sums)):
            known[j] = -factor * d_v[t, j]
        for i in range(q.shape[1]):
            key = k[t, i]
            for j in range(len(known)):
                d_state[i, j] = factor * d_state[i, j] + key * known[j]


@kernel
def gradients_by_columns(
    q: Array,
    k: Array,
    written: Array,
    decay: Array,
    states: Array,
    d_read: Array,
    d_known: Array,
    turned: Array,
    d_k: Array,
    d_log_decay: Array,
) -> None:
    """The gradients that are sums over values: `d_k`, and the rest of `d_log_decay`; `turned` [V, K] is transposed."""
    width = q.shape[1]
    key_sums, decay_sums = np.empty(width, dtype=q.dtype), np.empty(width, dtype=q.dtype)
    for t in range(q.shape[0] - 1, -1, -1):
        key_sums[:] = 0
        decay_sums[:] = 0
        factor, query, key = decay[t], q[t], k[t]
        for j in range(turned.shape[0]):
            value, d_row, d_value = written[t, j], d_read[t, j], d_known[t, j]
            for i in range(width):
                x = turned[j, i] + d_row * query[i]
                turned[j, i] = factor * x
                key_sums[i] += value * x
            for i in range(width):
                before = states[t, j, i]
                key_sums[i] += d_value * before
                decay_sums[i] += turned[j, i] * before
            for i in range(width):
                turned[j, i] += d_value * key[i]
        d_k[t] = key_sums
        d_log_decay[t] += decay_sums.sum()
