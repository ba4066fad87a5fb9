"""Training: what trained mechanisms learn from a workload before they are evaluated on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from models.config import MechanismConfig, canonical_json
from models.mechanism import MECHANISMS
from models.stream import Stream
from models.trained import Fitted, TrainedMechanism
from tasks.seeds import generator
from tasks.workload import Workload

TRAINING_EPISODES = 2**31
"""First episode that is for training: episodes that are evaluated stay below it. One 32-bit word still holds it, so
that no child of a training episode's seed is a grandchild of an evaluated one's."""

Fits = Mapping[tuple[str, int], Fitted | Exception]
"""What was learned, or why nothing was, by (identity of the config as canonical JSON, seed)."""


def fit_key(config: MechanismConfig, seed: int) -> tuple[str, int]:
    """Where `Fits` holds what `config` learned with `seed`."""
    return canonical_json(config.identity()), seed


def fit_all(workload: Workload[Any], configs: Sequence[MechanismConfig], seeds: Sequence[int]) -> Fits:
    """Train each config that learns, over all its seeds at once. Configs that learn nothing are left out.

    Where training raises, the seeds are trained one by one, so that each fails alone.
    """
    fits: dict[tuple[str, int], Fitted | Exception] = {}
    for config in configs:
        implementation = MECHANISMS.implementation(config.name)
        if issubclass(implementation, TrainedMechanism):
            learned = _fit(implementation, workload, config, seeds)
            fits |= {fit_key(config, seed): fit for seed, fit in zip(seeds, learned, strict=True)}
    return fits


def _fit(
    implementation: type[TrainedMechanism[Any]],
    workload: Workload[Any],
    config: MechanismConfig,
    seeds: Sequence[int],
) -> Sequence[Fitted | Exception]:
    def streams(seed: int, number: int) -> Stream:
        return workload.stream(seed, TRAINING_EPISODES + number)

    def init(seed: int) -> np.random.Generator:
        return generator(seed, "init")

    try:
        return implementation.fit(config, seeds, streams, init)
    except Exception as error:
        if len(seeds) == 1:
            return [error]
        return [fit for seed in seeds for fit in _fit(implementation, workload, config, [seed])]
