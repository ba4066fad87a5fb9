"""Linear attention read at a few positions: no state is carried, every read weighs the tokens before it itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.networks.scan import fading
from models.sequence.recurrence.forms import check

if TYPE_CHECKING:
    from torch import Tensor


def linear_attention_at(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, positions: Tensor) -> Tensor:
    """Reads [N, P, V] of `linear_attention` at `positions` [P], from queries `q` [N, P, K] there alone.

    `k` [N, T, K], `v` [N, T, V], `log_decay` [N, T] <= 0, positions in 0..T-1. Work and memory grow with P T.
    Raises ValueError for shapes that do not fit, T = 0 among them.
    """
    check("linear_attention_at", {}, q=(q, "N P K"), k=(k, "N T K"), v=(v, "N T V"), log_decay=(log_decay, "N T"))
    import torch

    tokens = torch.arange(k.shape[1], device=k.device)
    later = tokens > positions[:, None]
    sums = log_decay[:, None].masked_fill(later, 0.0).flip(2).cumsum(2).flip(2)
    since = torch.nn.functional.pad(sums[:, :, 1:], (0, 1))
    weights = (q @ k.mT) * fading(since).masked_fill(later, 0.0)
    return weights @ v
