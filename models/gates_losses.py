"""What gates are trained with: novelty, masks, and the read through a mask, differentiable and batched over seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from models.layers import per_seed
from models.training import Draws, Examples

if TYPE_CHECKING:
    from torch import Tensor

Objective = Literal["soft_mask", "straight_through", "gumbel_softmax"]

TINY = 1e-8
"""Added to votes, so that a mask of zeros gives a large loss and not an infinite one."""


def novelty(keys: Tensor) -> Tensor:
    """1 - max cos of each token with all earlier ones [S, B, L], from unit `keys` [S, B, L, d]; 2 for the first."""
    import torch

    cosines = keys @ keys.mT
    past = torch.ones(cosines.shape[-2:], dtype=torch.bool, device=keys.device).tril(-1)
    return (1.0 - cosines.masked_fill(~past, -1.0).amax(-1)).clamp(min=0.0)


def rule_decisions(keys: Tensor, tau: float) -> Tensor:
    """1 where the rule (Eq. 2) opens a slot for a token, else 0 [S, B, L], from unit `keys` [S, B, L, d]."""
    import torch

    similar = (keys @ keys.mT >= 1.0 - tau).flatten(0, 1).cpu().numpy()
    opened = np.zeros(similar.shape[:2], dtype=bool)
    for t in range(similar.shape[1]):
        opened[:, t] = ~(similar[:, t, :t] & opened[:, :t]).any(axis=1)
    return torch.tensor(opened.astype(np.float32), device=keys.device).view(keys.shape[:3])


def mask(logits: Tensor, objective: Objective, temperature: float, draws: Draws) -> Tensor:
    """How much of each token the read sees [S, B, L], from the logits of the gates.

    soft_mask: g; attention logits + log g (arXiv 2607.09889, §3.1.4). straight_through: 1[g > 1/2] with the gradient
    of g (arXiv 1308.3432). gumbel_softmax: a sample of the relaxed Bernoulli distribution (arXiv 1611.01144).
    """
    gate = logits.sigmoid()
    if objective == "straight_through":
        return (gate > 0.5).to(gate.dtype) + (gate - gate.detach())
    if objective == "gumbel_softmax":
        return ((logits + draws.logistic(*logits.shape[1:])) / temperature).sigmoid()
    return gate


def votes(examples: Examples, kept: Tensor, temperature: float) -> Tensor:
    """Softmax numerators summed by class [S, B, Q, classes]; `kept` multiplies them, as adding its log would."""
    import torch

    weights = ((examples.queries @ examples.keys.mT - 1.0) / temperature).exp()
    classes = torch.nn.functional.one_hot(examples.values, examples.classes).to(weights.dtype)
    return weights @ (classes * kept[..., None])


def read_loss(examples: Examples, kept: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of the right classes of all queries [S], in nats."""
    cast = votes(examples, kept, temperature) + TINY
    right = cast.gather(3, examples.answers[..., None])[..., 0]
    return per_seed(cast.sum(3).log() - right.log())


def top_m_recall(examples: Examples, logits: Tensor, budget: int, temperature: float) -> Tensor:
    """Queries answered right from the `budget` tokens of largest gate [S]."""
    import torch

    with torch.no_grad():
        best = logits.topk(min(budget, logits.shape[2]), dim=2).indices
        kept = torch.zeros_like(logits).scatter(2, best, 1.0)
        return per_seed((votes(examples, kept, temperature).argmax(3) == examples.answers).float())
