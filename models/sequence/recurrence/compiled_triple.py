"""Triple-latent recurrences for CPUs, in one kernel each way: nothing between the projections is copied.

Imported when first used: it needs torch. A lane, one head of one sequence, is gathered into rows that lie together,
goes through the memory as in linear attention, and its results are put where the next projection reads them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.kernel import kernel
from models.networks.scan import FAINTEST
from models.sequence.recurrence.compiled import chunk_of, dot, recording, tiny_of
from models.sequence.recurrence.compiled_linear_attention import lane_gradients, read_lane
from models.sequence.recurrence.parallel import Array, array, over_lanes


def triple_recurrence(factors: Tensor, gates: Tensor, choices: Tensor | None) -> Tensor:
    """`models.sequence.recurrence.triple_recurrence`, compiled."""
    if recording(factors, gates, choices):
        made: Tensor = TripleRecurrence.apply(factors, gates, choices)  # type: ignore[no-untyped-call]
        return made
    return run_forward(factors, gates, choices, keep=False)[0]


class TripleRecurrence(torch.autograd.Function):
    """Both passes; one tensor for the gradients of all factors, and one for those of both gates."""

    @staticmethod
    def forward(ctx: Any, factors: Tensor, gates: Tensor, choices: Tensor | None) -> Tensor:
        read, attended, kept, ctx.chunk = run_forward(factors, gates, choices, keep=True)
        ctx.save_for_backward(factors, gates, choices, attended, kept)
        return read

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_read: Tensor) -> tuple[Tensor | None, ...]:
        *given, attended, kept = ctx.saved_tensors
        inputs = [part for part in given if part is not None]
        d_inputs = [torch.empty_like(part, memory_format=torch.contiguous_format) for part in inputs]
        arrays = [array(part) for part in (*inputs, attended, kept, d_read, *d_inputs)]
        way = dense_backward if given[2] is None else slots_backward
        over_lanes(way, kept.shape[1], *arrays, ctx.chunk, tiny_of(arrays[0]))
        return *d_inputs, *[None] * (3 - len(inputs))


def run_forward(
    factors: Tensor, gates: Tensor, choices: Tensor | None, *, keep: bool
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Reads, what they multiply, memories before each chunk (none unless `keep`), tokens a chunk.

    Of one pair memory or the two factors of slots: attended [1 | 2, R, T, H, V], kept [1 | 2, R·H, T / chunk, S, V].
    """
    rows, tokens, _, heads, size = factors.shape
    shape = (rows, tokens, heads, size) if choices is None else choices.shape
    memories = 1 if choices is None else 2
    chunk = chunk_of(size * shape[3] * factors.element_size(), tokens)
    kept = factors.new_empty(memories, rows * heads, -(-tokens // chunk) if keep else 0, size, shape[3])
    attended, read = factors.new_empty(memories, *shape), factors.new_empty(shape)
    inputs = (factors, gates) if choices is None else (factors, gates, choices)
    arrays = [array(part) for part in (*inputs, attended, kept, read)]
    over_lanes(dense_forward if choices is None else slots_forward, rows * heads, *arrays, chunk, tiny_of(arrays[0]))
    return read, attended, kept, chunk


@kernel
def dense_forward(
    first: int,
    stop: int,
    factors: Array,
    gates: Array,
    attended: Array,
    kept: Array,
    read: Array,
    chunk: int,
    tiny: float,
) -> None:
    """Write `read` [R, T, H, S], what it multiplies with the factor right, and `kept`."""
    _, tokens, _, heads, size = factors.shape
    lane = np.empty((5, tokens, size), dtype=factors.dtype)
    shares = np.empty((4, tokens), dtype=factors.dtype)
    memory = np.empty((size, size), dtype=factors.dtype)
    for n in range(first, stop):
        r, h = n // heads, n % heads
        gather(factors[r], gates[r], h, lane, shares, tiny)
        before, pair, left, right, sums = lane[0], lane[1], lane[2], lane[3], lane[4]
        weigh(pair, shares[3])
        memory[:] = 0
        read_lane(left, before, pair, shares[2], memory, kept[0, n], sums, chunk, tiny)
        for t in range(tokens):
            for i in range(size):
                attended[0, r, t, h, i] = sums[t, i]
                read[r, t, h, i] = sums[t, i] * right[t, i]


@kernel
def slots_forward(
    first: int,
    stop: int,
    factors: Array,
    gates: Array,
    choices: Array,
    attended: Array,
    kept: Array,
    read: Array,
    chunk: int,
    tiny: float,
) -> None:
    """Write `read` [R, T, H, M], its two factors `attended`, and `kept`."""
    _, tokens, _, heads, size = factors.shape
    slots = choices.shape[3]
    lane = np.empty((4, tokens, size), dtype=factors.dtype)
    slot = np.empty((3, tokens, slots), dtype=factors.dtype)
    taken, one, other = slot[0], slot[1], slot[2]
    shares = np.empty((4, tokens), dtype=factors.dtype)
    memory = np.empty((size, slots), dtype=factors.dtype)
    for n in range(first, stop):
        r, h = n // heads, n % heads
        gather(factors[r], gates[r], h, lane, shares, tiny)
        before, pair, left, right = lane[0], lane[1], lane[2], lane[3]
        taken[:] = choices[r, :, h]
        weigh(taken, shares[3])
        memory[:] = 0
        read_lane(left, before, taken, shares[2], memory, kept[0, n], one, chunk, tiny)
        memory[:] = 0
        read_lane(right, pair, taken, shares[2], memory, kept[1, n], other, chunk, tiny)
        for t in range(tokens):
            for m in range(slots):
                attended[0, r, t, h, m] = one[t, m]
                attended[1, r, t, h, m] = other[t, m]
                read[r, t, h, m] = one[t, m] * other[t, m]


@kernel
def dense_backward(
    first: int,
    stop: int,
    factors: Array,
    gates: Array,
    attended: Array,
    kept: Array,
    d_read: Array,
    d_factors: Array,
    d_gates: Array,
    chunk: int,
    tiny: float,
) -> None:
    """Write the gradients of `factors` and `gates`."""
    _, tokens, _, heads, size = factors.shape
    lane = np.empty((4, tokens, size), dtype=factors.dtype)
    d_lane = np.empty((4, tokens, size), dtype=factors.dtype)
    toward, d_left, d_before, d_pair = d_lane[0], d_lane[1], d_lane[2], d_lane[3]
    shares = np.empty((4, tokens), dtype=factors.dtype)
    d_decay, d_share = np.empty(tokens, dtype=factors.dtype), np.empty(tokens, dtype=factors.dtype)
    d_memory = np.empty((size, size), dtype=factors.dtype)
    for n in range(first, stop):
        r, h = n // heads, n % heads
        gather(factors[r], gates[r], h, lane, shares, tiny)
        before, pair, left, right = lane[0], lane[1], lane[2], lane[3]
        for t in range(tokens):
            for i in range(size):
                toward[t, i] = d_read[r, t, h, i] * right[t, i]
                d_factors[r, t, 3, h, i] = d_read[r, t, h, i] * attended[0, r, t, h, i]
        weigh(pair, shares[3])
        d_memory[:] = 0
        lane_gradients(
            left, before, pair, shares[2], kept[0, n], toward, d_memory, d_left, d_before, d_pair, d_decay, chunk, tiny
        )
        for t in range(tokens):
            d_share[t] = dot(d_pair[t], pair[t])
            for i in range(size):
                d_factors[r, t, 1, h, i] = shares[3, t] * d_pair[t, i]
                d_factors[r, t, 2, h, i] = d_left[t, i]
        gate_gradients(d_decay, d_share, shares, h, d_gates[r])
        state_gradients(factors[r], before, d_before, shares, h, d_factors[r], d_gates[r], tiny)


@kernel
def slots_backward(
    first: int,
    stop: int,
    factors: Array,
    gates: Array,
    choices: Array,
    attended: Array,
    kept: Array,
    d_read: Array,
    d_factors: Array,
    d_gates: Array,
    d_choices: Array,
    chunk: int,
    tiny: float,
) -> None:
    """Write the gradients of `factors`, `gates` and `choices`."""
    _, tokens, _, heads, size = factors.shape
    slots = choices.shape[3]
    lane = np.empty((4, tokens, size), dtype=factors.dtype)
    d_lane = np.empty((4, tokens, size), dtype=factors.dtype)
    d_left, d_right, d_before, d_pair = d_lane[0], d_lane[1], d_lane[2], d_lane[3]
    slot = np.empty((5, tokens, slots), dtype=factors.dtype)
    taken, toward_one, toward_other, d_taken, d_more = slot[0], slot[1], slot[2], slot[3], slot[4]
    shares = np.empty((4, tokens), dtype=factors.dtype)
    d_shares = np.empty((3, tokens), dtype=factors.dtype)
    d_decay, d_more_decay, d_share = d_shares[0], d_shares[1], d_shares[2]
    d_memory = np.empty((size, slots), dtype=factors.dtype)
    for n in range(first, stop):
        r, h = n // heads, n % heads
        gather(factors[r], gates[r], h, lane, shares, tiny)
        before, pair, left, right = lane[0], lane[1], lane[2], lane[3]
        taken[:] = choices[r, :, h]
        weigh(taken, shares[3])
        toward_one[:] = d_read[r, :, h] * attended[1, r, :, h]
        toward_other[:] = d_read[r, :, h] * attended[0, r, :, h]
        d_memory[:] = 0
        lane_gradients(
            left, before, taken, shares[2], kept[0, n], toward_one, d_memory, d_left, d_before, d_taken, d_decay, chunk,
            tiny,
        )  # fmt: skip
        d_memory[:] = 0
        lane_gradients(
            right, pair, taken, shares[2], kept[1, n], toward_other, d_memory, d_right, d_pair, d_more, d_more_decay,
            chunk, tiny,
        )  # fmt: skip
        d_factors[r, :, 1, h], d_factors[r, :, 2, h], d_factors[r, :, 3, h] = d_pair, d_left, d_right
        for t in range(tokens):
            for m in range(slots):
                d_taken[t, m] += d_more[t, m]
                d_choices[r, t, h, m] = shares[3, t] * d_taken[t, m]
            d_share[t] = dot(d_taken[t], taken[t])
            d_decay[t] += d_more_decay[t]
        gate_gradients(d_decay, d_share, shares, h, d_gates[r])
        state_gradients(factors[r], before, d_before, shares, h, d_factors[r], d_gates[r], tiny)


@kernel
def gather(factors: Array, gates: Array, h: int, lane: Array, shares: Array, tiny: float) -> None:
    """Write of head `h` states before each token, b, left and right, `lane` [4.., T, S], and what gates let through.

    shares [4, T]: of the state what is kept and what comes in, and the same of the memory
    """
    tokens, size = factors.shape[0], factors.shape[3]
    state = np.zeros(size, dtype=factors.dtype)
    least, nothing = factors.dtype.type(tiny), factors.dtype.type(0)  # else sums of 32 bits are taken in 64
    for t in range(tokens):
        for gate in range(2):
            split(gates[t, gate, h], shares, gate, t)
        keep, share = shares[0, t], shares[1, t]
        for i in range(size):
            lane[0, t, i] = state[i]
            faded = keep * state[i]
            state[i] = share * factors[t, 0, h, i] + (faded if abs(faded) >= least else nothing)
        for part in range(1, 4):
            for i in range(size):
                lane[part, t, i] = factors[t, part, h, i]


@kernel
def split(x: float, shares: Array, gate: int, t: int) -> None:
    """Write sigmoid(x), 0 if it is of the faintest, and sigmoid(-x), each with all its digits."""
    small = math.exp(-abs(x))
    more, less = 1 / (1 + small), small / (1 + small)
    shares[2 * gate, t] = more if x >= 0 else less if x >= FAINTEST else 0.0
    shares[2 * gate + 1, t] = less if x >= 0 else more


@kernel
def weigh(rows: Array, share: Array) -> None:
    """Multiply each of `rows` [T, D] with its `share` [T]."""
    for t in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            rows[t, i] *= share[t]


@kernel
def gate_gradients(d_decay: Array, d_share: Array, shares: Array, h: int, d_gates: Array) -> None:
    """Write those of gates of memories, from `d_decay` and `d_share` of the logarithms of what is kept and let in."""
    for t in range(len(d_decay)):
        d_gates[t, 1, h] = shares[3, t] * d_decay[t] - shares[2, t] * d_share[t]


@kernel
def state_gradients(
    factors: Array,
    before: Array,
    d_before: Array,
    shares: Array,
    h: int,
    d_factors: Array,
    d_gates: Array,
    tiny: float,
) -> None:
    """Write those of the factor a and of gates of states, from `d_before` [T, S] of the states before each token."""
    tokens, size = before.shape
    later = np.zeros(size, dtype=before.dtype)
    least, nothing = before.dtype.type(tiny), before.dtype.type(0)
    for t in range(tokens - 1, -1, -1):
        keep, share = shares[0, t], shares[1, t]
        total = later[0] * (before[t, 0] - factors[t, 0, h, 0])
        for i in range(1, size):
            total += later[i] * (before[t, i] - factors[t, 0, h, i])
        d_gates[t, 0, h] = keep * share * total
        for i in range(size):
            d_factors[t, 0, h, i] = share * later[i]
        for i in range(size):
            faded = keep * later[i]
            later[i] = d_before[t, i] + (faded if abs(faded) >= least else nothing)
