"""Evaluation on a device: the metrics of the CPU's evaluation, whatever runs together, and failures that stay alone."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

from models.config import MechanismConfig, SlotConfig
from models.devices.device import DeviceClass, DeviceError, available_devices, precision
from models.devices.form import DEVICE_FORMS, Questions, objection
from models.devices.forms.full_attention import FullAttentionForm
from models.devices.stream_batch import BatchPhase, StreamBatch
from models.item_hits import HITS
from models.mechanism import MECHANISMS
from models.mechanisms.full_attention import FullAttention
from models.stream import Phase, Stream, unit
from tasks import evaluate_device
from tasks.evaluate import TIMING_METRICS, Outcome, evaluate
from tasks.evaluate_device import UnsupportedError, evaluate_on
from tasks.workload import WORKLOADS, Workload
from tests.no_float64 import no_float64

DEVICE: DeviceClass = os.environ.get("SLOTSWEEP_TEST_DEVICE", "cpu")  # type: ignore[assignment]

CONFIGS: list[dict[str, Any]] = [
    {"name": "full_attention"},
    {"name": "full_attention", "temperature": "argmax"},
    {"name": "knn", "k": 3},
    {"name": "optimal", "budget": 7},
    *({"name": name, "budget": b} for name in ("recency", "streaming_llm", "random_eviction", "tova") for b in (0, 9)),
    *({"name": name, "budget": b} for name in ("item_lru", "item_lfu", "belady") for b in (1, 300)),
    *(
        {"name": "h2o", "budget": b, "variant": v}
        for v in ("heavy_hitter", "half_recent", "observed_mean")
        for b in (6, 20)
    ),
    *({"name": "snapkv", "budget": b, "window": 8, "pooling": p} for p in (True, False) for b in (4, 20)),
    *({"name": "dp_cache", "tau": t} for t in (-0.5, 0.0, 0.3, 0.5, 2.0)),
    {"name": "dp_cache", "cap": 8, "decay": 0.9},
    {"name": "dp_cache", "keep": "majority", "keys": "centroid"},
    {"name": "adaptive_dp_cache"},
    {"name": "item_ttl", "window": 30},
    {"name": "superposition", "decay": 0.99},
    {"name": "linear_attention"},
    {"name": "delta_rule"},
    {"name": "gated_delta_rule"},
    {"name": "ridge_memory"},
    {"name": "quadratic_memory"},
]


class PhasedStreams(Workload[Any]):
    """Streams with queries in the middle, too; every third one is shorter."""

    def stream(self, seed: int, episode: int) -> Stream:
        rng = np.random.default_rng([seed, episode])
        length = 70 if episode % 3 == 2 else 80
        base = unit(rng.standard_normal((20, 16)))
        items = rng.integers(20, size=length)
        keys = unit(base[items] + 0.2 * rng.standard_normal((length, 16)) / 4)
        labels = rng.integers(5, size=20)
        phases = tuple(
            Phase(end, base[:half], labels[:half], np.arange(half), np.array([1, 3]))
            for end, half in ((30, 10), (length, 20))
        )
        return Stream(keys, labels[items], items, phases, classes=5, chance=0.2)

    @classmethod
    def tokens(cls, config: Any) -> int:
        return 80


def mechanism(tree: dict[str, Any]) -> MechanismConfig:
    config = MECHANISMS.config_class(tree["name"]).model_validate(tree)
    assert isinstance(config, MechanismConfig)
    return config


def associative(**fields: Any) -> Workload[Any]:
    config = WORKLOADS.config_class("associative_recall").model_validate({"name": "associative_recall", **fields})
    return WORKLOADS.implementation("associative_recall")(config)  # type: ignore[arg-type]


HOST_ONLY = {HITS}
"""Metrics that are counted by the kernels of the CPU alone."""


def untimed(outcome: Outcome) -> dict[str, float]:
    assert outcome.metrics is not None, outcome.message
    return {name: value for name, value in outcome.metrics.items() if name not in {*TIMING_METRICS, *HOST_ONLY}}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    "workload", [PhasedStreams(None), associative(items=12, dim=16)], ids=["phased", "associative"]
)
def test_metrics_are_those_of_the_cpu(workload: Workload[Any], dtype: str) -> None:
    """No decision of these streams is closer than the tolerance, so nothing may differ but the rounding of means."""
    configs = [mechanism(tree) for tree in CONFIGS]
    seeds = (3, 5)
    for seed, row in zip(seeds, evaluate_on(DEVICE, workload, configs, seeds, 3, dtype), strict=True):
        for config, ours, theirs in zip(configs, row, evaluate(workload, configs, seed, 3, dtype), strict=True):
            assert untimed(ours) == pytest.approx(untimed(theirs), abs=1e-6), config
            assert set(ours.metrics or {}) == set(theirs.metrics or {}) - HOST_ONLY
            assert ours.series.keys() == theirs.series.keys()
            for name, values in ours.series.items():
                assert values == pytest.approx(theirs.series[name], abs=1e-6)


def test_what_runs_together_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """All seeds and streams in one batch, or each stream in a batch of its own."""
    configs = [mechanism(tree) for tree in CONFIGS]
    together = evaluate_on(DEVICE, PhasedStreams(None), configs, (5, 6), 3, "float32")
    monkeypatch.setattr(evaluate_device, "batch_memory", lambda _: 1)
    backwards = evaluate_on(DEVICE, PhasedStreams(None), configs[::-1], (6, 5), 3, "float32")
    for one, other in zip(together, backwards[::-1], strict=True):
        for ours, theirs in zip(one, other[::-1], strict=True):
            assert untimed(ours) == pytest.approx(untimed(theirs), abs=1e-12)


def test_times_are_shares_of_the_batch() -> None:
    began = time.perf_counter()
    configs = [mechanism({"name": "tova", "budget": b}) for b in (3, 9)]
    rows = evaluate_on(DEVICE, associative(items=8), configs, (1, 2), 5, "float32")
    took = time.perf_counter() - began
    for row in rows:
        for outcome in row:
            assert outcome.metrics is not None
            assert 0 < outcome.metrics["build_us_per_token"] * 1e-6 * 2 * 2 * 5 * outcome.metrics["tokens"] < took
            assert outcome.metrics["read_us_per_query"] > 0


def test_cosines_of_queries_are_part_of_reading_for_those_who_look_at_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(StreamBatch):
        def query_blocks(self, phase: BatchPhase) -> Any:
            for block in super().query_blocks(phase):
                time.sleep(0.2)
                yield block

    monkeypatch.setattr(evaluate_device, "StreamBatch", Slow)
    configs = [mechanism({"name": name}) for name in ("linear_attention", "full_attention", "knn")]
    [row] = evaluate_on(DEVICE, associative(items=8), configs, (1,), 2, "float32")
    waited = 0.2 / (2 * 8) * 1e6
    state, *slots = [(outcome.metrics or {})["read_us_per_query"] for outcome in row]
    assert state < 0.5 * waited
    assert min(slots) >= waited


def test_a_mac_is_asked_for_no_64_bit_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate_device, "precision", lambda _, dtype: precision("mps", dtype))
    configs = [config for config in map(mechanism, CONFIGS) if objection(config, "mps") is None]
    with no_float64():
        [row] = evaluate_on(DEVICE, PhasedStreams(None), configs, (3,), 3, "float32")
    for config, ours, theirs in zip(configs, row, evaluate(PhasedStreams(None), configs, 3, 3, "float32"), strict=True):
        assert untimed(ours) == pytest.approx(untimed(theirs), abs=1e-6), config


def test_mechanisms_that_learn_run_beside_the_others() -> None:
    trees = [
        {"name": "recency", "budget": 5},
        {"name": "s4d", "steps": 3},
        {"name": "novelty_gate", "steps": 3, "budget": 6},
    ]
    configs = [mechanism(tree) for tree in trees]
    workload = associative(items=6, dim=8)
    for seed, row in zip((1, 2), evaluate_on(DEVICE, workload, configs, (1, 2), 2, "float32"), strict=True):
        for ours, theirs in zip(row, evaluate(workload, configs, seed, 2, "float32"), strict=True):
            assert untimed(ours) == pytest.approx(untimed(theirs), abs=1e-9 if DEVICE == "cpu" else 1e-2)


# --- refusals ---


class Unreadable(Workload[Any]):
    """Fails the test that reads it."""

    def stream(self, seed: int, episode: int) -> Stream:
        raise AssertionError("nothing may run before the refusal")

    @classmethod
    def tokens(cls, config: Any) -> int:
        return 0


def test_a_device_that_is_not_here_is_refused() -> None:
    missing: list[DeviceClass] = [device for device in ("cuda", "mps") if device not in available_devices()]  # type: ignore[misc]
    for device in missing:
        with pytest.raises(DeviceError, match=f"this machine has no {device} that torch can use; it has cpu"):
            evaluate_on(device, Unreadable(None), [mechanism({"name": "full_attention"})], (0,), 1, "float32")


def test_mechanisms_without_a_form_are_refused_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate_device, "require", lambda _: None)
    configs = [mechanism({"name": name}) for name in ("dp_parser", "full_attention", "drain_parser", "dp_parser")]
    with pytest.raises(UnsupportedError) as refused:
        evaluate_on("mps", Unreadable(None), configs, (0,), 1, "float32")
    assert str(refused.value) == (
        "`dp_parser` runs on cpu only: it has no form for devices; "
        "`drain_parser` runs on cpu only: it has no form for devices"
    )


# --- failures ---


class FragileConfig(SlotConfig):
    """Full attention that fails as told."""

    name: Literal["fragile"] = "fragile"
    fault: str = "none"


class Fragile(FullAttention):
    batch_over = ("fault",)


class FragileForm(FullAttentionForm):
    def answer(self, questions: Questions) -> Any:
        import torch

        right = super().answer(questions)
        for c, config in enumerate(self.configs):
            fault = config.fault  # type: ignore[attr-defined]
            if fault == "raise":
                raise ValueError("told to")
            if fault == "slow":
                time.sleep(1.0)
            if fault == "memory" or (fault == "crowded" and len(self.streams) > 1):
                raise torch.OutOfMemoryError("told to")
            if fault == "crowded metal" and len(self.streams) > 1:
                raise RuntimeError("MPS backend out of memory (told to)")
            if fault == "infinite":
                right[:, c] = float("inf")
        return right


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], MechanismConfig]:
    monkeypatch.setitem(MECHANISMS._entries, "fragile", (FragileConfig, Fragile))  # type: ignore[arg-type]
    monkeypatch.setitem(DEVICE_FORMS._entries, "fragile", (FragileConfig, FragileForm))  # type: ignore[arg-type]
    return lambda fault: FragileConfig(fault=fault)


def test_a_failing_trial_fails_alone_with_its_reason(fragile: Callable[[str], MechanismConfig]) -> None:
    faults = ["none", "raise", "infinite", "memory", "none"]
    configs = [*map(fragile, faults), mechanism({"name": "full_attention"})]
    for row in evaluate_on(DEVICE, associative(items=6), configs, (1, 2), 2, "float32"):
        reasons = [outcome.reason for outcome in row]
        assert reasons == [None, "user_error", "not_a_number", "out_of_memory", None, None]
        assert "ValueError: told to" in row[1].message
        assert untimed(row[0]) == untimed(row[4]) == untimed(row[5])


@pytest.mark.parametrize("fault", ["crowded", "crowded metal"])
def test_too_many_streams_at_once_are_read_in_parts(fault: str, fragile: Callable[[str], MechanismConfig]) -> None:
    configs = [fragile(fault), mechanism({"name": "full_attention"})]
    [row] = evaluate_on(DEVICE, associative(items=6), configs, (1,), 5, "float32")
    assert untimed(row[0]) == untimed(row[1])


def test_a_batch_is_gone_before_the_next_one_takes_memory(
    fragile: Callable[[str], MechanismConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[StreamBatch]] = []

    class Watched(StreamBatch):
        def __init__(self, *arguments: Any) -> None:
            assert not any(batch() for batch in made)
            super().__init__(*arguments)
            made.append(weakref.ref(self))

    monkeypatch.setattr(evaluate_device, "StreamBatch", Watched)
    monkeypatch.setattr(evaluate_device, "batch_memory", lambda _: 1)
    configs = [fragile("none"), fragile("crowded"), mechanism({"name": "adaptive_dp_cache"})]
    evaluate_on(DEVICE, associative(items=6), configs, (1,), 3, "float32")
    evaluate_on(DEVICE, associative(items=6), [fragile("raise"), configs[-1]], (1,), 3, "float32")
    assert len(made) == 6
    made.clear()
    monkeypatch.setattr(evaluate_device, "batch_memory", lambda _: 1 << 30)
    evaluate_on(DEVICE, associative(items=6), configs, (1,), 3, "float32")
    assert len(made) > 3


def test_a_trial_that_takes_too_long_fails_alone(fragile: Callable[[str], MechanismConfig]) -> None:
    evaluate_on(DEVICE, associative(items=6), [fragile("none")], (1,), 2, "float32")  # so that nothing is first
    configs = [fragile(fault) for fault in ("none", "slow", "none")]
    [row] = evaluate_on(DEVICE, associative(items=6), configs, (1,), 2, "float32", timeout=0.3)
    assert [outcome.reason for outcome in row] == [None, "timeout", None]
