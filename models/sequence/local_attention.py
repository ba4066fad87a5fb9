"""Attention within a window, block by block: its cost grows with tokens times window, not with tokens squared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import arange, cat
from torch.nn.functional import pad

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

LEAST = 16
"""Fewest tokens of a block: products of smaller matrices take longer than what they save."""


def block_size(window: int) -> int:
    """Tokens of a block, so many that each token's window lies in its own block and the one before."""
    return max(window, LEAST)


def local_attention(query: Tensor, key: Tensor, value: Tensor, window: int, drop: Callable[[Tensor], Tensor]) -> Tensor:
    """Softmax attention [N, T, V] of each token to the last `window` ones, itself among them (arXiv 2004.05150, 3.1).

    `query`, `key` [N, T, K], `value` [N, T, V]. `drop` is given the weights, [N, T/C, C, 2C] for blocks of C tokens,
    each beside the block before it.
    """
    tokens, size = query.shape[1], block_size(window)
    asked = in_blocks(query, size)
    known, told = (beside_before(in_blocks(part, size)) for part in (key, value))
    scores = (asked @ known.mT / key.shape[2] ** 0.5).masked_fill(hidden(asked, window), float("-inf"))
    return (drop(scores.softmax(3)) @ told).flatten(1, 2)[:, :tokens]


def in_blocks(x: Tensor, size: int) -> Tensor:
    """x [N, T, w] as [N, T/C, C, w], filled up with zeros."""
    return pad(x, (0, 0, 0, -x.shape[1] % size)).view(len(x), -1, size, x.shape[2])


def beside_before(blocks: Tensor) -> Tensor:
    """Each of the blocks [N, T/C, C, w] after the one before it [N, T/C, 2C, w]; zeros are before the first."""
    return cat([pad(blocks[:, :-1], (0, 0, 0, 0, 1, 0)), blocks], dim=2)


def hidden(asked: Tensor, window: int) -> Tensor:
    """What tokens `asked` [N, T/C, C, w] must not see of their block and the one before [T/C, C, 2C]."""
    _, count, size, _ = asked.shape
    seen = arange(-size, size, device=asked.device)
    here = arange(size, device=asked.device)[:, None]
    first = arange(count, device=asked.device)[:, None, None] == 0
    return outside(seen, here, window) | (first & (seen < 0))


def outside(seen: Tensor, here: Tensor, window: int | None) -> Tensor:
    """Which positions `seen` come after those `here`, or so long before that they are in no `window` of theirs."""
    later = seen > here
    return later if window is None else later | (seen <= here - window)
