"""Evaluation: fused equals alone bit for bit, a failing trial fails alone, metrics are what their names say."""

from __future__ import annotations

import sys
import time
from typing import Any, Literal

import numpy as np
import pytest

from models.config import MechanismConfig, SlotConfig
from models.mechanism import MECHANISMS
from models.mechanisms.full_attention import FullAttention
from models.stream import Phase, Stream, unit
from tasks.evaluate import SUMMED_METRICS, TIMING_METRICS, Outcome, evaluate
from tasks.workload import WORKLOADS, Workload

CONFIGS: list[dict[str, Any]] = [
    {"name": "full_attention"},
    {"name": "full_attention", "temperature": "argmax"},
    {"name": "knn", "k": 3},
    {"name": "optimal", "budget": 7},
    *(
        {"name": name, "budget": b}
        for name in ("recency", "streaming_llm", "random_eviction", "tova")
        for b in (0, 5, 40)
    ),
    *({"name": name, "budget": b} for name in ("item_lru", "item_lfu") for b in (1, 9, 300)),
    *(
        {"name": "h2o", "budget": b, "variant": v}
        for v in ("heavy_hitter", "half_recent", "observed_mean")
        for b in (6, 30)
    ),
    *({"name": "snapkv", "budget": b, "window": 8, "pooling": p} for p in (True, False) for b in (4, 20)),
    *({"name": "dp_cache", "tau": t} for t in (-0.5, 0.0, 0.3, 0.5, 2.0)),
    {"name": "dp_cache", "cap": 8, "decay": 0.9},
    {"name": "dp_cache", "keep": "majority", "keys": "centroid"},
]


class PhasedStreams(Workload[Any]):
    """Streams over the block of 256 tokens, with queries in the middle, too."""

    def stream(self, seed: int, episode: int) -> Stream:
        rng = np.random.default_rng([seed, episode])
        base = unit(rng.standard_normal((40, 16)))
        items = rng.integers(40, size=300)
        keys = unit(base[items] + 0.2 * rng.standard_normal((300, 16)) / 4)
        labels = rng.integers(5, size=40)
        phases = tuple(
            Phase(end, base[:half], labels[:half], np.arange(half), np.array([1, 3]))
            for end, half in ((90, 20), (300, 40))
        )
        return Stream(keys, labels[items], items, phases, classes=5, chance=0.2)

    @classmethod
    def tokens(cls, config: Any) -> int:
        return 300


def mechanism(tree: dict[str, Any]) -> MechanismConfig:
    config = MECHANISMS.config_class(tree["name"]).model_validate(tree)
    assert isinstance(config, MechanismConfig)
    return config


def untimed(outcome: Outcome) -> dict[str, float]:
    assert outcome.metrics is not None, outcome.message
    return {name: value for name, value in outcome.metrics.items() if name not in TIMING_METRICS}


def associative(**fields: Any) -> Workload[Any]:
    config = WORKLOADS.config_class("associative_recall").model_validate({"name": "associative_recall", **fields})
    return WORKLOADS.implementation("associative_recall")(config)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("workload", [PhasedStreams(None), associative(items=12, dim=8)], ids=["phased", "associative"])
def test_fused_equals_alone_bit_for_bit(workload: Workload[Any], dtype: str) -> None:
    configs = [mechanism(tree) for tree in CONFIGS]
    fused = evaluate(workload, configs, 3, 2, dtype)
    backwards = evaluate(workload, configs[::-1], 3, 2, dtype)[::-1]
    for config, one, other in zip(configs, fused, backwards, strict=True):
        [alone] = evaluate(workload, [config], 3, 2, dtype)
        assert untimed(one) == untimed(alone) == untimed(other), config


def test_metrics_are_complete_and_consistent() -> None:
    outcomes = evaluate(PhasedStreams(None), [mechanism(tree) for tree in CONFIGS], 0, 2, "float32")
    for tree, outcome in zip(CONFIGS, outcomes, strict=True):
        metrics = outcome.metrics
        assert metrics is not None
        own = set(MECHANISMS.implementation(str(tree["name"])).own_metrics)
        assert set(metrics) == {*SUMMED_METRICS, *own, "build_us_per_token", "read_us_per_query"}
        assert 0 <= metrics["recall"] <= metrics["recall_credited"] <= 1
        assert metrics["slots"] <= metrics["slots_peak"] <= metrics["tokens"] == 300
        assert metrics["slots_mean"] <= metrics["slots_peak"]
        assert metrics["bytes_metadata"] <= metrics["bytes"] <= metrics["bytes_peak"]
        if tree.get("budget") == 0:
            assert (metrics["recall"], metrics["abstained"], metrics["bytes"]) == (0, 1, 0)
            assert metrics["recall_credited"] == pytest.approx(0.2)


def test_bytes_count_keys_values_and_metadata_in_the_stored_format() -> None:
    workload = associative(items=12, repeats=2, dim=8)
    configs = [mechanism({"name": "recency", "budget": 5}), mechanism({"name": "h2o", "budget": 5})]
    for dtype, width in (("float32", 4), ("float16", 2), ("float64", 8)):
        recency, h2o = (untimed(outcome) for outcome in evaluate(workload, configs, 0, 1, dtype))
        assert (recency["bytes"], recency["bytes_metadata"]) == (5 * (8 * width + 4), 0)
        assert (h2o["bytes"], h2o["bytes_metadata"]) == (5 * (8 * width + 4 + 4), 20)


def test_an_episode_is_the_same_whatever_the_number_of_episodes() -> None:
    workload, config = associative(items=6), mechanism({"name": "recency", "budget": 4})
    counts = [evaluate(workload, [config], 9, n, "float32")[0].metrics["recall_all"] * n for n in (1, 2, 3)]  # type: ignore[index]
    each = [
        evaluate(_Shifted(workload, n), [config], 9, 1, "float32")[0].metrics["recall_all"]  # type: ignore[index]
        for n in range(3)
    ]
    assert counts == pytest.approx(np.cumsum(each))


class _Shifted(Workload[Any]):
    """Begins with a later episode of another workload."""

    def __init__(self, workload: Workload[Any], by: int) -> None:
        self._workload, self._by = workload, by

    def stream(self, seed: int, episode: int) -> Stream:
        return self._workload.stream(seed, episode + self._by)

    @classmethod
    def tokens(cls, config: Any) -> int:
        return 0


class FragileConfig(SlotConfig):
    """Full attention that fails as told."""

    name: Literal["fragile"] = "fragile"
    fault: str = "none"


class Fragile(FullAttention):
    batch_over = ("fault",)

    def answer(self, block: Any, phase: Phase) -> Any:
        right = super().answer(block, phase)
        for row, config in zip(right, self.configs, strict=True):
            if config.fault == "raise":  # type: ignore[attr-defined]
                raise ValueError("told to")
            if config.fault == "memory":  # type: ignore[attr-defined]
                raise MemoryError
            if config.fault == "slow":  # type: ignore[attr-defined]
                time.sleep(1.0)
            if config.fault.startswith("exit"):  # type: ignore[attr-defined]
                sys.exit(int(config.fault[-1]))  # type: ignore[attr-defined]
            if config.fault == "infinite":  # type: ignore[attr-defined]
                row[:] = np.inf
        return right


def test_a_failing_trial_fails_alone_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the group it shares a kernel call with; one that diverges does not poison its neighbours."""
    monkeypatch.setitem(MECHANISMS._entries, "fragile", (FragileConfig, Fragile))
    faults = ["none", "raise", "infinite", "memory", "none", "exit 0", "exit 1"]
    configs: list[MechanismConfig] = [FragileConfig(fault=fault) for fault in faults]
    outcomes = evaluate(associative(items=6), [*configs, mechanism({"name": "full_attention"})], 0, 2, "float32")
    assert [outcome.reason for outcome in outcomes] == [
        None, "user_error", "not_a_number", "out_of_memory", None, "no_result", "user_error", None,
    ]  # fmt: skip
    assert "ValueError: told to" in outcomes[1].message
    assert "recall" in outcomes[2].message
    assert untimed(outcomes[0]) == untimed(outcomes[4]) == untimed(outcomes[7])


def test_a_trial_that_takes_too_long_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its neighbours in the group are measured by themselves."""
    monkeypatch.setitem(MECHANISMS._entries, "fragile", (FragileConfig, Fragile))
    configs: list[MechanismConfig] = [FragileConfig(fault=fault) for fault in ("none", "slow", "none")]
    outcomes = evaluate(associative(items=6), configs, 0, 2, "float32", timeout=0.5)
    assert [outcome.reason for outcome in outcomes] == [None, "timeout", None]
