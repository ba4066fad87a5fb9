from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workers import energy
from workers.batch import BatchTask, run_batch
from workers.energy import EnergyMeter, RaplCounter, energy_counter
from workers.facts import UnknownFactError
from workers.hardware import read_hardware
from workers.meter import ResourceMeter

RANGE = 262_143_328_850

Count = Callable[[int, int], None]


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    energy._counter.cache_clear()
    yield
    energy._counter.cache_clear()


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Count:
    """Counters of two packages, one of a core domain and one of the whole board; a call sets the packages' counts."""
    names = {"intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:1": "package-1", "intel-rapl:2": "psys"}
    for zone, name in names.items():
        folder = tmp_path / zone
        folder.mkdir()
        (folder / "name").write_text(f"{name}\n")
        (folder / "max_energy_range_uj").write_text(f"{RANGE}\n")
        (folder / "energy_uj").write_text("999999999\n")

    def count(first: int, second: int) -> None:
        (tmp_path / "intel-rapl:0" / "energy_uj").write_text(f"{first}\n")
        (tmp_path / "intel-rapl:1" / "energy_uj").write_text(f"{second}\n")

    count(0, 0)
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    return count


def test_energy_is_that_of_the_packages_alone(packages: Count) -> None:
    packages(1_000_000, 5_000_000)
    with EnergyMeter("cpu") as meter:
        packages(3_500_000, 5_500_000)
    assert (meter.joules, meter.reason) == (3.0, None)
    assert read_hardware().flat()["energy"] == "rapl: package-0, package-1"


def test_a_count_that_starts_anew_is_seen(packages: Count) -> None:
    packages(RANGE - 1_000_000, 0)
    with EnergyMeter("cpu") as meter:
        packages(999_999, 0)
    assert meter.joules == pytest.approx(2.0)


def test_nothing_counted_is_unknown_and_not_zero(packages: Count) -> None:
    with EnergyMeter("cpu") as meter:
        pass
    assert (meter.joules, meter.reason) == (None, "over before the counter took its next step")


def test_a_count_that_may_have_gone_round_twice_is_unknown(packages: Count) -> None:
    counter = energy_counter("cpu")
    with pytest.raises(UnknownFactError, match="gone round more than once"):
        counter.joules(counter.read(), counter.read(), seconds=300.0)


def test_without_a_counter_the_record_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "POWERCAP", tmp_path / "none")
    with EnergyMeter("cpu") as meter:
        pass
    assert (meter.joules, meter.reason) == (None, None)
    record = read_hardware().flat()
    assert record["energy"] is None
    assert record["energy_reason"] == "not measurable here: the system shows no RAPL counter"


def test_a_counter_kept_from_this_user_is_a_reason(packages: Count, tmp_path: Path) -> None:
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()  # root may read what it is not allowed to
    with pytest.raises(UnknownFactError, match=r"cannot be read .*energy_uj"):
        RaplCounter(tmp_path)
    packages(0, 0)
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("not a number")
    with pytest.raises(UnknownFactError, match="cannot be read"):
        RaplCounter(tmp_path)


def test_a_mac_says_why_it_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UnknownFactError, match="macOS"):
        energy_counter("mps")


def fake_nvml(monkeypatch: pytest.MonkeyPatch, counts: Iterator[int]) -> list[str]:
    """An NVML that answers with `counts`; the names of the GPUs it was asked for."""
    import pynvml
    import torch

    asked: list[str] = []

    def handle(identity: str) -> str:
        asked.append(identity)
        return "handle"

    fakes: dict[str, Any] = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": handle,
        "nvmlDeviceGetName": lambda _: "NVIDIA H200",
        "nvmlDeviceGetTotalEnergyConsumption": lambda _: next(counts),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(pynvml, name, fake)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    chips = {1: SimpleNamespace(uuid="12ab-34")}
    monkeypatch.setattr(torch.cuda, "get_device_properties", chips.__getitem__)
    return asked


def test_a_gpu_is_asked_by_its_identity_because_processes_number_gpus_differently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = fake_nvml(monkeypatch, iter([0, 7_000, 7_250]))
    with EnergyMeter("cuda") as meter:
        pass
    assert asked == ["GPU-12ab-34"]
    assert (energy_counter("cuda").name, meter.joules) == ("nvml: NVIDIA H200", 0.25)


def test_no_gpu_is_a_reason() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(UnknownFactError, match="not measurable here: NVML counts no energy of this GPU"):
        energy_counter("cuda")


def test_a_batchs_energy_is_shared_by_the_time_trials_took(packages: Count, monkeypatch: pytest.MonkeyPatch) -> None:
    from workers import batch

    task = _task(seeds=3)
    whole = batch._run_trials

    def counted(*arguments: Any) -> Any:
        reports = whole(*arguments)
        packages(6_000_000, 0)
        return reports

    monkeypatch.setattr(batch, "_run_trials", counted)
    reports = run_batch(task).trials
    assert sum(report.energy_joules or 0.0 for report in reports) == pytest.approx(6.0)
    assert len({round((report.energy_joules or 0.0) / report.wall_seconds, 6) for report in reports}) == 1
    assert all(report.peak_memory_bytes and report.device_memory_bytes is None for report in reports)


def _task(seeds: int) -> BatchTask:
    from models.mechanism import MECHANISMS
    from tasks.workload import WORKLOADS

    workload = WORKLOADS.config_class("associative_recall")(name="associative_recall", items=4, repeats=2, dim=4)
    mechanism = MECHANISMS.config_class("recency")(name="recency", budget=3)
    trials = tuple((seed, seed, 0) for seed in range(seeds))
    return BatchTask(1, "frontier", workload.identity(), (mechanism.identity(),), trials, 2, "float32")


def test_recording_costs_a_trial_less_than_a_tenth_of_a_millisecond(packages: Count, pace: float) -> None:
    costs = []
    for _ in range(50):
        start = time.perf_counter()
        with EnergyMeter("cpu"), ResourceMeter():
            pass
        costs.append(time.perf_counter() - start)
    assert min(costs) < 1e-4 * pace
