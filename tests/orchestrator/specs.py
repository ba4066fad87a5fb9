"""Small specs that several tests run."""

from __future__ import annotations

from pathlib import Path

SMALL = """\
name: small
kind: frontier
workload: {name: associative_recall, items: 8, repeats: 2, classes: 4, dim: 16, noise: 0.3}
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, similarity: {values: [0.5, 0.6]}}
  - {name: recency, budget: {values: [4, 8, 16]}}
seeds: 4
episodes: 3
"""

FAILING_PLUGIN = '''\
"""Mechanisms that fail in each way there is."""

from typing import Literal

import numpy as np

from models.config import SlotConfig
from models.mechanism import MECHANISMS, mechanism

FullAttention = MECHANISMS.implementation("full_attention")


class FaultyConfig(SlotConfig):
    """Fails as told: raise, nan, memory, or not at all."""

    name: Literal["faulty"] = "faulty"
    fault: Literal["raise", "nan", "memory", "none"] = "none"


@mechanism(FaultyConfig)
class Faulty(FullAttention):
    batch_over = ("fault",)

    def answer(self, block, phase):
        right = super().answer(block, phase)
        if any(config.fault == "raise" for config in self.configs):
            raise ValueError("told to fail")
        if any(config.fault == "memory" for config in self.configs):
            raise MemoryError
        for row, config in zip(right, self.configs):
            row[:] = np.inf if config.fault == "nan" else row
        return right
'''


def write_small(folder: Path) -> Path:
    """SMALL as a file in `folder`."""
    path = folder / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path
