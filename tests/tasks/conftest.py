"""Oracles that several tests of tasks share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from models.stream import Floats


@pytest.fixture(scope="session")
def leader() -> Callable[[Floats, float], list[int]]:
    """Indices of the tokens that open a slot when a key joins any slot at least as similar, by brute force."""

    def opened(keys: Floats, similarity: float, block: int = 512) -> list[int]:
        # Slots only ever grow, so a key that finds one among the slots before its block needs no further look.
        slots = [0]
        for start in range(1, len(keys), block):
            before = (keys[start : start + block] @ keys[slots].T).max(axis=1)
            fresh: list[int] = []
            for token in (start + np.flatnonzero(before < similarity)).tolist():
                if not fresh or (keys[fresh] @ keys[token]).max() < similarity:
                    fresh.append(token)
            slots += fresh
        return slots

    return opened
