"""What is shown of an episode is what the trial did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models.mechanism import MECHANISMS, SlotMemory
from tasks.evaluate import evaluate
from tasks.replay import Replay, replay
from tasks.workload import WORKLOADS

WORKLOAD = {"name": "associative_recall", "items": 12, "repeats": 3, "classes": 4, "dim": 16, "noise": 0.4}
CONFIGS: list[dict[str, Any]] = [
    {"name": "dp_cache", "tau": 0.4},
    {"name": "dp_cache", "tau": 0.4, "keys": "centroid"},
    {"name": "adaptive_dp_cache", "tau": 0.4, "eta": 0.1, "beta": 0.5},
    {"name": "h2o", "budget": 6},
    {"name": "recency", "budget": 5},
    {"name": "snapkv", "budget": 6},
    {"name": "item_lru", "budget": 6},
    {"name": "full_attention"},
    {"name": "linear_attention"},
    {"name": "delta_rule"},
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: "-".join(map(str, config.values())))
def test_an_episode_step_by_step_gives_the_trials_metrics(config: dict[str, Any]) -> None:
    workload = WORKLOADS.config_class("associative_recall").model_validate(WORKLOAD)
    streams = WORKLOADS.implementation("associative_recall")(workload)
    mechanism = MECHANISMS.config_class(config["name"]).model_validate(config)
    [outcome] = evaluate(streams, [mechanism], seed=3, episodes=2, dtype="float32")
    assert outcome.metrics is not None
    replays = [replay(streams, mechanism, 3, episode, "float32") for episode in range(2)]
    assert np.mean([_recall(one, counted=True) for one in replays]) == outcome.metrics["recall"]
    assert np.mean([_recall(one, counted=False) for one in replays]) == pytest.approx(outcome.metrics["recall_all"])
    if not issubclass(MECHANISMS.implementation(config["name"]), SlotMemory):
        assert not any(one.steps for one in replays)
        return
    held = [step.slots for one in replays for step in one.steps]
    assert np.mean(held) == pytest.approx(outcome.metrics["slots_mean"])
    for one in replays:
        slots = 0
        for step in one.steps:
            slots += step.opened - len(step.dropped)
            assert slots == step.slots, "what was opened and dropped says what is held"
            assert (step.nearest is None) == (step.token == 0)


def _recall(one: Replay, *, counted: bool) -> float:
    return float(np.mean([asked.right or 0.0 for asked in one.asked if asked.counted or not counted]))
