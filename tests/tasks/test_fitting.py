"""Training before evaluation: on streams of its own, for all seeds at once, each seed failing alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from models.config import MechanismConfig, canonical_json
from models.mechanism import MECHANISMS
from models.mechanisms.novelty_gate import NoveltyGate
from models.stream import Stream
from models.trained import Fitted
from tasks.evaluate import TIMING_METRICS, Outcome, evaluate
from tasks.fitting import TRAINING_EPISODES, fit_all, fit_key
from tasks.workload import WORKLOADS, Workload

TREES: list[dict[str, Any]] = [
    {"name": "novelty_gate", "budget": 12, "steps": 3},
    {"name": "novelty_gate", "budget": 12, "steps": 3, "keep": "hard"},
    {"name": "s4d", "steps": 3, "state": 4, "channels": 4},
    {"name": "hybrid", "steps": 3, "state": 4},
]


def mechanism(tree: dict[str, Any]) -> MechanismConfig:
    config = MECHANISMS.config_class(tree["name"]).model_validate(tree)
    assert isinstance(config, MechanismConfig)
    return config


class Watched(Workload[Any]):
    """Associative recall that notes which streams are asked for."""

    def __init__(self) -> None:
        super().__init__(None)
        fields = {"name": "associative_recall", "items": 12, "dim": 8, "classes": 4}
        config: Any = WORKLOADS.config_class("associative_recall").model_validate(fields)
        self.inner = WORKLOADS.implementation("associative_recall")(config)
        self.asked: list[tuple[int, int]] = []

    def stream(self, seed: int, episode: int) -> Stream:
        self.asked.append((seed, episode))
        return self.inner.stream(seed, episode)

    @classmethod
    def tokens(cls, config: Any) -> int:
        return 48


def untimed(outcome: Outcome) -> dict[str, float]:
    assert outcome.metrics is not None, outcome.message
    return {name: value for name, value in outcome.metrics.items() if name not in TIMING_METRICS}


def test_no_stream_is_both_trained_on_and_evaluated() -> None:
    workload = Watched()
    fit_all(workload, [mechanism(tree) for tree in TREES], [7, 8])
    assert {seed for seed, _ in workload.asked} == {7, 8}
    assert all(TRAINING_EPISODES <= episode < 2**32 for _, episode in workload.asked)
    first = [workload.stream(7, episode).keys for episode in (0, TRAINING_EPISODES)]
    assert not np.array_equal(*first)


def test_trained_before_or_when_needed_a_trial_has_one_outcome() -> None:
    workload, configs = Watched(), [mechanism(tree) for tree in TREES]
    fits = fit_all(workload, configs, [7, 8])
    assert set(fits) == {(canonical_json(config.identity()), seed) for config in configs for seed in (7, 8)}
    for seed in (7, 8):
        before = evaluate(workload, configs, seed, 2, "float32", fits=fits)
        for config, one in zip(configs, before, strict=True):
            [other] = evaluate(workload, [config], seed, 2, "float32")
            assert untimed(one) == untimed(other)
            assert one.series == other.series


def test_what_training_says_of_itself_is_in_the_outcome() -> None:
    [gate, _, _, hybrid] = evaluate(Watched(), [mechanism(tree) for tree in TREES], 3, 2, "float32")
    assert {"gate_a", "gate_b", "plateau_low", "plateau_high", "kept_hard", "parameters"} <= set(untimed(gate))
    assert {"count_r2", "parameters", "training_loss"} <= set(untimed(hybrid))
    assert {"training_loss", "training_penalty", "training_recall", "training_task"} == set(gate.series)
    assert len(gate.series["training_loss"]) == 3


def test_mechanisms_that_learn_nothing_are_left_out() -> None:
    assert fit_all(Watched(), [mechanism({"name": "full_attention"})], [1]) == {}


def test_bytes_hold_the_parameters() -> None:
    [outcome] = evaluate(Watched(), [mechanism(TREES[0])], 3, 2, "float32")
    metrics = untimed(outcome)
    assert metrics["bytes"] == 12 * (8 * 4 + 4) + 2 * 4
    assert metrics["bytes_peak"] == 48 * (8 * 4 + 4) + 2 * 4


def test_a_seed_whose_training_raises_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = NoveltyGate.fit.__func__  # type: ignore[attr-defined]

    def fragile(cls: Any, config: Any, seeds: Sequence[int], *arguments: Any) -> list[Fitted]:
        if 8 in seeds:
            raise ValueError("seed 8 is no good")
        learned: list[Fitted] = fit(cls, config, seeds, *arguments)
        return learned

    monkeypatch.setattr(NoveltyGate, "fit", classmethod(fragile))
    workload, config = Watched(), mechanism(TREES[0])
    fits = fit_all(workload, [config], [7, 8, 9])
    assert isinstance(fits[fit_key(config, 7)], Fitted)
    assert isinstance(fits[fit_key(config, 9)], Fitted)
    [outcome] = evaluate(workload, [config], 8, 2, "float32", fits=fits)
    assert (outcome.metrics, outcome.reason) == (None, "user_error")
    assert "seed 8 is no good" in outcome.message


def test_a_seed_that_diverged_is_not_a_number() -> None:
    workload, configs = Watched(), [mechanism({"name": "full_attention"}), mechanism(TREES[2])]
    fits = dict(fit_all(workload, configs, [7]))
    fitted = fits[fit_key(configs[1], 7)]
    assert isinstance(fitted, Fitted)
    fitted.parameters["key"][0, 0] = np.nan
    full, diverged = evaluate(workload, configs, 7, 2, "float32", fits=fits)
    assert untimed(full)["recall"] == 1.0
    assert (diverged.metrics, diverged.reason) == (None, "not_a_number")
    assert "training diverged: key not finite" in diverged.message
