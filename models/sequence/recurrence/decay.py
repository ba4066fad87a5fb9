"""Decays of chunks of tokens: kept as logarithms until they are sums between two tokens, so that none overflows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.networks.scan import fading

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 64
"""Tokens that one matrix product covers; from chunk to chunk a state is carried."""


def in_chunks(tensor: Tensor, chunk: int = CHUNK) -> Tensor:
    """[N, T, ...] as [N, T / chunk, chunk, ...], the last chunk filled up with zeros; T below `chunk` stays one."""
    from torch.nn.functional import pad

    lanes, tokens = tensor.shape[:2]
    size = min(chunk, tokens)
    missing = -tokens % size
    if missing:
        tensor = pad(tensor, (0, 0) * (tensor.ndim - 2) + (0, missing))
    return tensor.reshape(lanes, -1, size, *tensor.shape[2:])


def between(log_decay: Tensor) -> Tensor:
    """Factors [..., C, C] by which what token j wrote has decayed at token t >= j, from `log_decay` [..., C].

    Each is the exponential of its own sum: a difference of two running sums would lose the digits of a small sum after
    a large one.
    """
    size = log_decay.shape[-1]
    sums = log_decay[..., :, None].expand(*log_decay.shape, size).tril(-1).cumsum(-2)
    return fading(sums).tril()


def since_start(log_decay: Tensor) -> Tensor:
    """Factors [..., C] by which what was there before the chunk has decayed at each token."""
    return fading(log_decay.cumsum(-1))
