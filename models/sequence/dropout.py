"""Dropout whose noise is a function of a seed and a place: nothing of it is kept for the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from models.kernel import kernel
from models.sequence.recurrence.parallel import Array, array, over_lanes

if TYPE_CHECKING:
    from torch import Tensor

PART = 1 << 16
"""Numbers that one thread takes at a time."""


def dropped(x: Tensor, share: float, seeds: Sequence[int]) -> Tensor:
    """x [S, ...] on the CPU with a `share` of its numbers set to 0, the others scaled by 1 / (1 - share).

    seeds: of each lane, 32 bits; the same ones drop the same numbers
    """
    y: Tensor = _Dropped.apply(x, share, np.array(seeds, dtype=np.uint32))  # type: ignore[no-untyped-call]
    return y


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float, seeds: Array) -> Tensor:
        ctx.share, ctx.seeds = share, seeds
        return _drop(x, share, seeds)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _drop(gradients[0], ctx.share, ctx.seeds), None, None


def _drop(x: Tensor, share: float, seeds: Array) -> Tensor:
    numbers = array(x).reshape(len(seeds), -1)
    out = np.empty_like(numbers)
    parts = -(-numbers.shape[1] // PART)
    scale = numbers.dtype.type(1.0 / (1.0 - share))
    over_lanes(drop, len(seeds) * parts, numbers, out, seeds, border_of(share), scale, parts)
    return torch.from_numpy(out).view(x.shape)


def border_of(share: float) -> np.uint32:
    """The hash below which a `share` of all hashes lies."""
    return np.uint32(round(share * 2**32))


@kernel
def drop(
    first: int, stop: int, x: Array, out: Array, seeds: Array, border: np.uint32, scale: np.floating[Any], parts: int
) -> None:
    """Parts first..stop-1 of `x` [S, n] with every number dropped whose hash is below `border`."""
    for part in range(first, stop):
        lane, begin = part // parts, part % parts * PART
        end = min(begin + PART, x.shape[1])
        seed = seeds[lane]
        for place in range(begin, end):
            out[lane, place] = x[lane, place] * scale if hash_of(place, seed) >= border else 0.0


@kernel
def hash_of(place: int, seed: np.uint32) -> np.uint32:
    """A hash of a number's place, started by its lane's seed (Wellons' `lowbias32`)."""
    h = np.uint32(np.uint32(place) * np.uint32(0x9E3779B9) ^ seed)
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D))
    h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B))
    return np.uint32(h ^ (h >> np.uint32(16)))
