"""Small plain pieces that references of networks are written with, in float64. Reading comes before speed."""

from __future__ import annotations

import numpy as np

from models.reference import cosine
from models.stream import Floats


def plain_last_state(log_factor: Floats, inputs: Floats) -> Floats:
    """Last state [N] of h = exp(`log_factor`) h + x over `inputs` [L, N]."""
    h = np.zeros_like(log_factor)
    for x in inputs:
        h = np.exp(log_factor) * h + x
    return h


def plain_attention(query: Floats, keys: Floats, values: Floats) -> Floats:
    """Softmax of q · k / √w over tokens, applied to their values [v]."""
    logits = [float(query @ key) / len(query) ** 0.5 for key in keys]
    weights = np.exp(np.array(logits) - max(logits))
    read: Floats = sum(weight * value for weight, value in zip(weights / weights.sum(), values, strict=True))
    return read


def plain_rule(keys: Floats, tau: float) -> list[int]:
    """Tokens that the rule (Eq. 2) opens a slot for, from unit keys [L, d]."""
    slots: list[int] = []
    for t, key in enumerate(keys):
        if 1.0 - max((cosine(key, keys[slot]) for slot in slots), default=-np.inf) > tau:
            slots.append(t)
    return slots


def plain_novelty(keys: Floats) -> list[float]:
    """1 - max cos of each token with all earlier ones, from unit keys [L, d]; 2 for the first."""
    return [1.0 - max((cosine(key, keys[s]) for s in range(t)), default=-1.0) for t, key in enumerate(keys)]
