"""GELU and the dropout after it as one pass over the numbers, and one back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from models.kernel import kernel
from models.sequence.dropout import PART, border_of, hash_of
from models.sequence.recurrence.parallel import Array, array, over_lanes

if TYPE_CHECKING:
    from torch import Tensor

STRETCH = 1 << 10
"""Numbers that are worked on at a time: what is kept of them on the way fits the fastest cache."""

ROUNDING = np.float32(1.5 * 2.0**23)
"""Added to a number below 2^22, it leaves the nearest whole number in the lowest bits."""

MOST = np.float32(80.0)
"""Where x²/2 is larger, e^(-x²/2) counts as e^-80: all that it is multiplied with rounds to 0 or 1 long before. It is
multiplied with no larger x than this."""


def gelu_dropped(x: Tensor, share: float, seeds: Sequence[int]) -> Tensor:
    """x Φ(x) of float32 x [S, ...] on the CPU, a `share` of it set to 0, the others scaled by 1 / (1 - share).

    Φ is the normal distribution function to 8e-8 (Abramowitz and Stegun, 7.1.26), as near as its float32 is.
    seeds: of each lane, 32 bits; `dropped` drops the same numbers for the same ones
    """
    y: Tensor = _GeluDropped.apply(x, share, np.array(seeds, dtype=np.uint32))  # type: ignore[no-untyped-call]
    return y


class _GeluDropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float, seeds: Array) -> Tensor:
        numbers = array(x).reshape(len(seeds), -1)
        out, slope = np.empty_like(numbers), np.empty_like(numbers)
        parts = -(-numbers.shape[1] // PART)
        scale = np.float32(1.0 / (1.0 - share))
        over_lanes(gelu_drop, len(seeds) * parts, numbers, out, slope, seeds, border_of(share), scale, parts)
        ctx.save_for_backward(torch.from_numpy(slope).view(x.shape))
        return torch.from_numpy(out).view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return gradients[0] * slope, None, None


@kernel
def gelu_drop(
    first: int,
    stop: int,
    x: Array,
    out: Array,
    slope: Array,
    seeds: Array,
    border: np.uint32,
    scale: np.float32,
    parts: int,
) -> None:
    """Parts first..stop-1 of `x` [S, n]: x Φ(x) and its derivative Φ(x) + x φ(x), both dropped alike."""
    value, slant = np.empty(STRETCH, np.float32), np.empty(STRETCH, np.float32)
    for part in range(first, stop):
        lane, start = part // parts, part % parts * PART
        seed = seeds[lane]
        for begin in range(start, min(start + PART, x.shape[1]), STRETCH):
            end = min(begin + STRETCH, x.shape[1])
            exponential(x[lane, begin:end], value, slant)
            gelu(x[lane, begin:end], value, slant)
            drop_both(value, slant, out[lane, begin:end], slope[lane, begin:end], begin, seed, border, scale)


@kernel
def gelu(x: Array, value: Array, slant: Array) -> None:
    """From `exponential`'s results, x Φ(x) and Φ(x) + x φ(x) in their place."""
    for i in range(len(x)):
        bell = value[i] * slant[i]
        t = np.float32(1.0) / (np.float32(1.0) + np.float32(0.3275911 * 0.7071067811865476) * abs(x[i]))
        tail = np.float32(1.061405429) * t + np.float32(-1.453152027)
        tail = tail * t + np.float32(1.421413741)
        tail = tail * t + np.float32(-0.284496736)
        tail = (tail * t + np.float32(0.254829592)) * t * bell * np.float32(0.5)
        below = tail if x[i] < np.float32(0.0) else np.float32(1.0) - tail
        value[i] = x[i] * below
        near = min(max(x[i], -MOST), MOST)
        slant[i] = below + near * bell * np.float32(0.3989422804014327)


@kernel
def drop_both(
    value: Array,
    slant: Array,
    out: Array,
    slope: Array,
    begin: int,
    seed: np.uint32,
    border: np.uint32,
    scale: np.float32,
) -> None:
    """`value` and `slant` into `out` and `slope`, which start at place `begin` of their lane, dropped alike."""
    for i in range(len(out)):
        kept = scale if hash_of(begin + i, seed) >= border else np.float32(0.0)
        out[i] = value[i] * kept
        slope[i] = slant[i] * kept


@kernel
def exponential(x: Array, power: Array, above: Array) -> None:
    """e^(-x²/2) as `power` times `above`, a power of two."""
    bits = above.view(np.int32)
    for i in range(len(x)):
        y = np.float32(-1.4426950408889634) * min(np.float32(0.5) * x[i] * x[i], MOST)
        whole = (y + ROUNDING) - ROUNDING
        f = (y - whole) * np.float32(0.6931471805599453)
        p = np.float32(1.0 / 720.0) * f + np.float32(1.0 / 120.0)
        p = p * f + np.float32(1.0 / 24.0)
        p = p * f + np.float32(1.0 / 6.0)
        p = p * f + np.float32(0.5)
        p = p * f + np.float32(1.0)
        power[i] = p * f + np.float32(1.0)
        above[i] = y + ROUNDING
    for i in range(len(x)):
        bits[i] = (bits[i] + np.int32(127)) << np.int32(23)
