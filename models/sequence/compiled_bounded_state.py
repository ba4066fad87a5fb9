"""The bounded state for CPUs. Imported when first used: it needs torch.

The forward pass keeps the state before each chunk of tokens; the backward pass makes the states within a chunk again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.kernel import kernel
from models.sequence.recurrence.compiled import chunk_of, drop_tiny, recording, tiny_of
from models.sequence.recurrence.parallel import Array, array, over_lanes


def bounded_state(
    q: Tensor, k: Tensor, v: Tensor, diagonal: Tensor, shares: Tensor, keep: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """`models.sequence.bounded_state.bounded_state`, compiled."""
    if recording(q, k, v, diagonal, shares, keep, state):
        read, end = BoundedState.apply(q, k, v, diagonal, shares, keep, state)  # type: ignore[no-untyped-call]
        return read, end
    read, end, _, _ = run_forward(q, k, v, diagonal, shares, keep, state, recorded=False)
    return read, end


class BoundedState(torch.autograd.Function):
    """Both passes; every tensor gets a gradient."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        read, end, kept, ctx.chunk = run_forward(*inputs, recorded=True)
        ctx.save_for_backward(*inputs[:6], kept)
        return read, end

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_read: Tensor, d_end: Tensor) -> tuple[Tensor, ...]:
        *inputs, kept = ctx.saved_tensors
        d_inputs = [torch.empty_like(part, memory_format=torch.contiguous_format) for part in inputs]
        d_state = d_end.clone(memory_format=torch.contiguous_format)
        arrays = [array(part) for part in (*inputs, kept, d_read, d_state, *d_inputs)]
        over_lanes(backward, len(kept), *arrays, ctx.chunk, tiny_of(arrays[0]))
        return *d_inputs, d_state


def run_forward(
    q: Tensor, k: Tensor, v: Tensor, diagonal: Tensor, shares: Tensor, keep: Tensor, state: Tensor, *, recorded: bool
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Reads, the last state, states before each chunk [N, T / chunk, S, S] (none unless `recorded`), tokens a chunk."""
    lanes, tokens, size = k.shape
    chunk = chunk_of(size * size * k.element_size(), tokens)
    end = state.clone(memory_format=torch.contiguous_format)
    kept = q.new_empty(lanes, -(-tokens // chunk) if recorded else 0, size, size)
    read = torch.empty_like(q, memory_format=torch.contiguous_format)
    arrays = [array(part) for part in (q, k, v, diagonal, shares, keep, end, kept, read)]
    over_lanes(forward, lanes, *arrays, chunk, tiny_of(arrays[0]))
    return read, end, kept, chunk


@kernel
def inner(one: Array, other: Array) -> float:
    """Sum of products of two rows. A core begins the next row's meanwhile, so that one sum at a time is enough."""
    result: float = one[0] * other[0]
    for i in range(1, len(one)):
        result += one[i] * other[i]
    return result


@kernel
def write(before: Array, k: Array, v: Array, diagonal: Array, shares: Array, keep: float, after: Array) -> float:
    """Write the state `after` a token, not over that `before` it, and give the norm it was divided by (1: none)."""
    size = len(k)
    squares = np.zeros(size, dtype=k.dtype)
    fresh = k.dtype.type(1) - keep
    straight, across = fresh * (shares[0] + shares[2] / 2), fresh * shares[2] / 2
    for i in range(size):
        row, column = straight * k[i], across * v[i]
        for j in range(size):
            after[i, j] = keep * before[i, j] + row * v[j] + column * k[j]
    for i in range(size):
        after[i, i] += fresh * shares[1] * diagonal[i]
    for i in range(size):
        for j in range(size):
            squares[j] += after[i, j] * after[i, j]
    norm = np.sqrt(squares.sum())
    if norm <= 1.0:
        return 1.0
    scale = k.dtype.type(1) / norm
    for i in range(size):
        for j in range(size):
            after[i, j] *= scale
    return float(norm)


@kernel
def forward(
    first: int,
    stop: int,
    q: Array,
    k: Array,
    v: Array,
    diagonal: Array,
    shares: Array,
    keep: Array,
    state: Array,
    kept: Array,
    read: Array,
    chunk: int,
    tiny: float,
) -> None:
    """Write `read` [N, T, S] and, every `chunk` tokens, `kept`; `state` [N, S, S] goes from the first to the last."""
    tokens, size = k.shape[1:]
    memory = np.empty((size, size), dtype=k.dtype)
    for n in range(first, stop):
        before, after = state[n], memory
        for t in range(tokens):
            if t % chunk == 0:
                drop_tiny(before, tiny)
                if kept.shape[1] > 0:
                    kept[n, t // chunk] = before
            write(before, k[n, t], v[n, t], diagonal[n, t], shares[n, t], keep[n, t], after)
            for i in range(size):
                read[n, t, i] = inner(after[i], q[n, t])
            before, after = after, before
        if tokens % 2 == 1:
            state[n] = memory


@kernel
def backward(
    first: int,
    stop: int,
    q: Array,
    k: Array,
    v: Array,
    diagonal: Array,
    shares: Array,
    keep: Array,
    kept: Array,
    d_read: Array,
    d_state: Array,
    d_q: Array,
    d_k: Array,
    d_v: Array,
    d_diagonal: Array,
    d_shares: Array,
    d_keep: Array,
    chunk: int,
    tiny: float,
) -> None:
    """Write the gradients; `d_state` [N, S, S] goes from that of the last state to that of the first."""
    tokens, size = k.shape[1:]
    states = np.empty((chunk + 1, size, size), dtype=k.dtype)
    norms = np.empty(chunk, dtype=k.dtype)
    for n in range(first, stop):
        for start in range((kept.shape[1] - 1) * chunk, -1, -chunk):
            end = min(start + chunk, tokens)
            states[0] = kept[n, start // chunk]
            for t in range(start, end):
                c = t - start
                norms[c] = write(states[c], k[n, t], v[n, t], diagonal[n, t], shares[n, t], keep[n, t], states[c + 1])
            drop_tiny(d_state[n], tiny)
            for t in range(end - 1, start - 1, -1):
                c = t - start
                unread(q[n, t], states[c + 1], norms[c], d_read[n, t], d_state[n], d_q[n, t])
                d_keep[n, t] = unwrite(
                    k[n, t], v[n, t], diagonal[n, t], shares[n, t], keep[n, t], states[c], d_state[n],
                    d_k[n, t], d_v[n, t], d_diagonal[n, t], d_shares[n, t],
                )  # fmt: skip


@kernel
def unread(q: Array, state: Array, norm: float, d_read: Array, d_state: Array, d_q: Array) -> None:
    """Write `d_q`; `d_state` goes from the gradient after the read to that of the state before it was divided."""
    size = len(q)
    d_q[:] = 0
    for i in range(size):
        d = d_read[i]
        for j in range(size):
            d_q[j] += d * state[i, j]
        for j in range(size):
            d_state[i, j] += d * q[j]
    if norm > 1.0:
        sums = np.zeros(size, dtype=q.dtype)
        for i in range(size):
            for j in range(size):
                sums[j] += d_state[i, j] * state[i, j]
        along, scale = sums.sum(), q.dtype.type(1.0 / norm)
        for i in range(size):
            for j in range(size):
                d_state[i, j] = (d_state[i, j] - along * state[i, j]) * scale


@kernel
def unwrite(
    k: Array,
    v: Array,
    diagonal: Array,
    shares: Array,
    keep: float,
    before: Array,
    d_state: Array,
    d_k: Array,
    d_v: Array,
    d_diagonal: Array,
    d_shares: Array,
) -> float:
    """Write gradients of a token's rows and shares, give that of `keep`; `d_state` goes to the state before it."""
    size = len(k)
    # of D, the gradient of the state: D v, D^T v, D^T k, D k, and sums of D times the state before
    d_v_rows, d_k_rows = np.empty(size, dtype=k.dtype), np.empty(size, dtype=k.dtype)
    columns = np.zeros((3, size), dtype=k.dtype)
    v_columns, k_columns, sums = columns[0], columns[1], columns[2]
    for i in range(size):
        d_v_rows[i], d_k_rows[i] = inner(d_state[i], v), inner(d_state[i], k)
        for j in range(size):
            v_columns[j] += d_state[i, j] * v[i]
        for j in range(size):
            k_columns[j] += d_state[i, j] * k[i]
        for j in range(size):
            sums[j] += d_state[i, j] * before[i, j]
    fresh = k.dtype.type(1) - keep
    plain, even = fresh * (shares[0] + shares[2] / 2), fresh * shares[2] / 2
    one, two, straight = k.dtype.type(0), k.dtype.type(0), k.dtype.type(0)
    for i in range(size):
        d_k[i] = plain * d_v_rows[i] + even * v_columns[i]
        d_v[i] = plain * k_columns[i] + even * d_k_rows[i]
        d_diagonal[i] = fresh * shares[1] * d_state[i, i]
        one += k[i] * d_v_rows[i]
        two += v[i] * d_k_rows[i]
        straight += diagonal[i] * d_state[i, i]
    d_shares[0], d_shares[1], d_shares[2] = fresh * one, fresh * straight, fresh * (one + two) / 2
    written = shares[0] * one + shares[1] * straight + shares[2] * (one + two) / 2
    for i in range(size):
        for j in range(size):
            d_state[i, j] *= keep
    return float(sums.sum() - written)
