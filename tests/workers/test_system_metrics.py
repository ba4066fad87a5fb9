"""What the machine does while a long trial runs: numbers that can be, at their times, few enough, cheap."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from workers import batch, system_metrics
from workers.system_metrics import SystemSampler, system_probe

TASK = batch.BatchTask(
    attempt=1,
    kind="training",
    workload={"name": "token_recall", "pairs": 2, "length": 16},
    mechanisms=({"name": "transformer", "width": 16, "layers": 1, "heads": 2, "batch": 2, "steps": 400},),
    trials=((7, 0, 0),),
    episodes=8,
    dtype="float32",
)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_metrics, "INTERVAL_SECONDS", 0.05)


def busy(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sum(range(1000))


def test_samples_are_taken_at_their_times_while_the_code_runs(often: None) -> None:
    began = time.time()
    with SystemSampler("cpu") as sampler:
        busy(0.5)
    series = sampler.series(began, time.time())
    seconds = series["system/seconds"]
    assert len(seconds) >= 5
    assert seconds == sorted(seconds)
    assert 0 < seconds[0] < seconds[-1] < time.time() - began
    assert {len(values) for values in series.values()} == {len(seconds)}
    assert max(series["system/process_cpu_percentage"]) > 30


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of its processors and memory in /proc")
def test_processors_and_memory_are_told_in_the_units_of_their_names(often: None) -> None:
    with SystemSampler("cpu") as sampler:
        busy(0.5)
    series = sampler.series(0.0, time.time())
    assert 0 < max(series["system/cpu_utilization_percentage"]) <= 100
    assert all(0 < share < 100 for share in series["system/system_memory_usage_percentage"])
    resident, used = (series[f"system/{name}_memory_usage_megabytes"] for name in ("process", "system"))
    assert all(10 < mine <= whole for mine, whole in zip(resident, used, strict=True))


def test_a_long_run_has_no_more_numbers_than_can_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_metrics, "INTERVAL_SECONDS", 0.001)
    monkeypatch.setattr(system_metrics, "MOST_SAMPLES", 20)
    with SystemSampler("cpu") as sampler:
        time.sleep(0.5)
    seconds = sampler.series(0.0, time.time())["system/seconds"]
    assert len(seconds) < 20
    assert max(seconds) - min(seconds) > 0.3


def test_only_samples_of_the_trial_are_its_own(often: None) -> None:
    with SystemSampler("cpu") as sampler:
        busy(0.2)
        middle = time.time()
        busy(0.2)
    first, second = sampler.series(0.0, middle), sampler.series(middle, time.time())
    assert max(first["system/seconds"]) <= middle
    assert min(second["system/seconds"]) >= 0
    assert sampler.series(1.0, 2.0) == {}


def test_a_long_trial_carries_them_and_a_short_one_does_not(often: None, monkeypatch: pytest.MonkeyPatch) -> None:
    [short] = batch.run_batch(TASK).trials
    assert short.outcome.metrics is not None
    assert not [name for name in short.outcome.series if name.startswith("system/")]
    monkeypatch.setattr(batch, "LONG_SECONDS", 0.0)
    [long] = batch.run_batch(TASK).trials
    assert "system/process_cpu_percentage" in long.outcome.series
    assert long.outcome.series["training_loss"] == short.outcome.series["training_loss"]


def test_nothing_looks_where_times_are_measured(often: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "LONG_SECONDS", 0.0)
    timed = replace(
        TASK,
        kind="cost_scaling",
        workload={"name": "associative_recall", "items": 16, "repeats": 2, "classes": 4, "dim": 16, "noise": 0.3},
        mechanisms=({"name": "full_attention"},),
        episodes=1,
    )
    [report] = batch.run_batch(timed).trials
    assert report.outcome.metrics is not None, report.outcome.message
    assert not [name for name in report.outcome.series if name.startswith("system/")]


@pytest.mark.alone
def test_looking_takes_less_than_a_thousandth_of_the_time(pace: float) -> None:
    probe = system_probe("cpu")
    probe()
    seconds = []
    for _ in range(50):
        began = time.perf_counter()
        probe()
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < system_metrics.INTERVAL_SECONDS / 1000 * pace


def test_a_gpu_is_read_through_nvml_and_left_out_when_it_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml
    import torch

    def silent(_: object) -> object:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    device = SimpleNamespace(uuid="1234")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: device)
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda name: name)
    memory = SimpleNamespace(used=2_000_000_000, total=8_000_000_000)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", lambda _: memory)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", lambda _: SimpleNamespace(gpu=75))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", silent)
    sample = system_probe("cuda")()
    assert {name: value for name, value in sample.items() if name.startswith("gpu")} == {
        "gpu_0_memory_usage_megabytes": 2000.0,
        "gpu_0_memory_usage_percentage": 25.0,
        "gpu_0_utilization_percentage": 75.0,
    }
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: silent(None))
    assert not [name for name in system_probe("cuda")() if name.startswith("gpu")]
