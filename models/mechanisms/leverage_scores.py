"""Leverage scores: keep the keys that the others say least about."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from models.mechanism import TIE, mechanism
from models.phase_memory import PhaseMemory
from models.stream import Floats
from models.token_memory import BudgetConfig

RIDGE = 0.01
"""Added to the diagonal of the keys' scatter matrix, so that it has an inverse."""


class LeverageScoresConfig(BudgetConfig):
    """Keep the keys of largest statistical leverage (the geometric half of Compactor, arXiv 2507.08143).

    Kept: l = x (X'X + 0.01 I)^-1 x of each centred key x, with the original's 0.01. Replaced: keys have length 1 before
    they are centred, as all that the probe stores has, so that one which stands out by its length alone does not; and
    scores are exact, where the original first sketches keys down to 48 random directions, which saves time for wider
    keys. Left out: rotary positions, of which there are none, and the half of Compactor that scores by attention.
    """

    name: Literal["leverage_scores"] = "leverage_scores"


@mechanism(LeverageScoresConfig)
class LeverageScores(PhaseMemory[LeverageScoresConfig]):
    """Write O(1), compress O(N d^2 + d^3), read O(B d); everything is held until a phase ends, so the peak is N slots.

    The copies of a key share its leverage, so that what came often goes before what came once. Ties: the oldest slot
    stays; scores below 1e-9 are 0. Scores are computed, not stored.
    """

    compares_tokens: ClassVar[bool] = False

    @classmethod
    def scores(cls, keys: Floats, config: LeverageScoresConfig) -> Floats:
        centred = keys - keys.mean(axis=0)
        scatter = centred.T @ centred + RIDGE * np.eye(keys.shape[1])
        leverage: Floats = np.einsum("ij,ji->i", centred, np.linalg.solve(scatter, centred.T))
        return np.where(leverage < TIE, 0.0, leverage)

    @classmethod
    def reference_scores(cls, keys: Floats, config: LeverageScoresConfig) -> list[float]:
        mean = sum(keys) / len(keys)
        scatter = sum(np.outer(key - mean, key - mean) for key in keys) + RIDGE * np.eye(keys.shape[1])
        inverse = np.linalg.inv(scatter)
        scores = [float((key - mean) @ inverse @ (key - mean)) for key in keys]
        return [0.0 if score < TIE else score for score in scores]
