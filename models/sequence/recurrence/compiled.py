"""What the compiled forms share. Kernels read arrays [N, T, ...] and write into arrays that they are given."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from models.kernel import kernel
from models.networks.scan import FAINTEST
from models.sequence.recurrence.parallel import Array

if TYPE_CHECKING:
    from torch import Tensor

STATES_BYTES = 1 << 16
"""States that the backward pass makes again at once, at most: they stay in a core's own cache."""

SMALLEST_ROOT = 0.8
"""Numbers of a state below the smallest normal one to this power become 0 between chunks, before they are denormal."""


def chunk_of(state_bytes: int, tokens: int) -> int:
    """Tokens between states that the forward pass keeps."""
    return max(8, min(STATES_BYTES // state_bytes, tokens))


def recording(*tensors: Tensor | None) -> bool:
    """Whether a backward pass can follow."""
    import torch

    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


@kernel
def set_factors(log_decay: Array, decay: Array) -> None:
    """Write exp of `log_decay` [T] into `decay` [T], with 0 for the faintest."""
    for t in range(len(log_decay)):
        decay[t] = math.exp(log_decay[t]) if log_decay[t] >= FAINTEST else 0.0


@kernel
def drop_tiny(state: Array, tiny: float) -> None:
    """Set numbers of `state` [K, V] below `tiny` to 0: before they were denormal, and slow."""
    for i in range(state.shape[0]):
        for j in range(state.shape[1]):
            x = state[i, j]
            state[i, j] = x if abs(x) >= tiny else 0.0


@kernel
def dot(one: Array, other: Array) -> float:
    """Sum of products of two rows [D]. A core adds the next row's meanwhile: no more sums at once are needed."""
    result: float = one[0] * other[0]
    for i in range(1, len(one)):
        result += one[i] * other[i]
    return result


def tiny_of(array: Array) -> float:
    """Numbers of a state below this become 0 between chunks."""
    smallest = float(np.finfo(array.dtype).smallest_normal)
    return math.pow(smallest, SMALLEST_ROOT)


# Sums over values are taken in transposed states, sums over keys in the others, so that all loops run along rows.
# A loop writes two arrays at most: LLVM does not check more for overlap, and would take one number at a time.


@kernel
def remake(k: Array, v: Array, decay: Array, states: Array, d_read: Array, d_q: Array) -> None:
    """Write transposed states [C + 1, V, K] after each of C tokens, behind the one before them, and gradients `d_q`."""
    sums = np.empty(k.shape[1], dtype=k.dtype)
    for t in range(k.shape[0]):
        sums[:] = 0
        factor, key = decay[t], k[t]
        for j in range(v.shape[1]):
            value, d_row = v[t, j], d_read[t, j]
            for i in range(len(sums)):
                x = factor * states[t, j, i] + value * key[i]
                states[t + 1, j, i] = x
                sums[i] += d_row * x
        d_q[t] = sums
