from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from workers import energy, hardware
from workers.facts import UnknownFactError
from workers.hardware import hardware_id, machine_id, read_hardware
from workers.threads import THREAD_VARIABLES

M3_PRO = json.dumps(
    {
        "SPDisplaysDataType": [
            {
                "_name": "Apple M3 Pro",
                "spdisplays_mtlgpufamilysupport": "spdisplays_metal3",
                "spdisplays_vendor": "sppci_vendor_Apple",
                "sppci_bus": "spdisplays_builtin",
                "sppci_cores": "18",
                "sppci_device_type": "spdisplays_gpu",
                "sppci_model": "Apple M3 Pro",
            }
        ]
    }
)
GRAVITON = json.dumps(
    {"lscpu": [{"field": "Vendor ID:", "data": "ARM"}, {"field": "Model name:", "data": "Neoverse-V1"}]}
)


def test_every_unknown_fact_has_a_reason_and_every_known_one_a_value() -> None:
    record = read_hardware().flat()
    for name, value in record.items():
        assert (value is None) == (f"{name}_reason" in record), name
    assert record["cores"] != 0
    assert record["ram_bytes"] > 100 << 20
    assert record["device"] == "cpu"
    assert record["cpu_model"]


def test_reading_is_quick_and_loads_no_numeric_library(pace: float) -> None:
    program = (
        "import sys, time; from workers.hardware import read_hardware; start = time.perf_counter(); read_hardware();"
        "print(time.perf_counter() - start, *({'torch', 'ray', 'numpy', 'numba'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert float(printed[0]) < 2.0 * pace
    assert printed[1:] == []


def test_blas_is_named_once_numpy_is_loaded() -> None:
    import numpy as np

    assert np.zeros(1).size == 1
    assert read_hardware().blas


def test_git_is_asked_only_in_a_checkout_of_slotsweep(tmp_path, monkeypatch) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr(hardware, "CHECKOUT", tmp_path / "site-packages")
    (tmp_path / "site-packages").mkdir()
    with pytest.raises(UnknownFactError, match="not run from a git checkout"):
        hardware._git("status", "--porcelain")


def test_who_runs_from_an_archive_is_told_its_commit(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(hardware, "CHECKOUT", tmp_path)
    hardware._machine_facts.cache_clear()
    monkeypatch.setenv(hardware.GIT_VARIABLE, "0123abc dirty")
    record = read_hardware().flat()
    hardware._machine_facts.cache_clear()
    assert (record["git_commit"], record["git_dirty"]) == ("0123abc", True)


def test_a_missing_or_slow_command_is_a_reason(monkeypatch) -> None:
    with pytest.raises(UnknownFactError, match="no-such-command"):
        hardware._output("no-such-command")
    monkeypatch.setattr(hardware, "COMMAND_SECONDS", 0.05)
    with pytest.raises(UnknownFactError, match="timed out"):
        hardware._output("sleep", "5")


def test_ids_tell_records_and_machines_apart() -> None:
    record = read_hardware().flat()
    committed = {**record, "git_commit": "0" * 40}
    larger = {**record, "ram_bytes": 1}
    assert hardware_id(dict(reversed(record.items()))) == hardware_id(record)
    assert len({hardware_id(record), hardware_id(committed), hardware_id(larger)}) == 3
    assert machine_id(committed) == machine_id(record) != machine_id(larger)
    assert machine_id({**record, "threads": record["threads"] + 1}) != machine_id(record)
    sixteen = {**record, "ram_bytes": 16 * 2**30}
    assert machine_id(sixteen) == machine_id({**sixteen, "ram_bytes": 16 * 2**30 - 2**20}) != machine_id(larger)


def test_the_machine_is_the_same_however_the_process_was_started() -> None:
    """Times are kept under it: neither the shell's threads nor `taskset` may have them measured again."""
    program = "import os; {first}from workers.hardware import this_machine; print(this_machine())"
    pinned = "os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1]); " if sys.platform == "linux" else ""
    clean = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    ids = {
        subprocess.run(
            [sys.executable, "-c", program.format(first=first)],
            env={**clean, **threads}, capture_output=True, text=True, check=True,
        ).stdout
        for first in ("", pinned, "import numpy; ")
        for threads in ({}, {"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "3"})
    }  # fmt: skip
    assert len(ids) == 1


def test_macos_names_its_gpu_and_metal_version() -> None:
    facts = hardware.parse_displays(M3_PRO)
    assert (facts["gpu"], facts["gpu_driver"]) == ("Apple M3 Pro (18 cores)", "metal3")
    assert str(facts["gpu_memory_bytes"]) == "it shares the main memory"
    assert hardware.parse_displays('{"SPDisplaysDataType": []}') == hardware.NO_GPU


@pytest.fixture
def macos(monkeypatch):
    """A MacBook, as far as a record sees."""
    answers = {
        ("sysctl", "-n"): "Apple M3 Pro\n",
        ("system_profiler", "SPDisplaysDataType"): M3_PRO,
        ("git", "-C"): "0123456789\n",
    }

    def answer(command, **_):
        return subprocess.CompletedProcess(command, 0, stdout=answers[command[:2]])

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", answer)
    monkeypatch.setattr(hardware.platform, "mac_ver", lambda: ("15.1", ("", "", ""), "arm64"))
    monkeypatch.setattr(hardware.platform, "machine", lambda: "arm64")
    for cached in (hardware._machine_facts, energy._counter):
        cached.cache_clear()
    yield
    monkeypatch.undo()
    for cached in (hardware._machine_facts, energy._counter):
        cached.cache_clear()


def test_the_whole_record_on_macos(macos) -> None:
    record = read_hardware("mps").flat()
    known = ("cpu_model", "os", "gpu", "gpu_driver", "device", "git_commit", "git_dirty")
    assert [record[name] for name in known] == [
        "Apple M3 Pro", "macOS 15.1 arm64", "Apple M3 Pro (18 cores)", "metal3", "mps", "0123456789", True,
    ]  # fmt: skip
    unknown = {name.removesuffix("_reason"): record[name] for name in record if name.endswith("_reason")}
    assert unknown["gpu_memory_bytes"] == "it shares the main memory"
    assert unknown["gpu_compute"] == "Metal has no compute capability"
    assert unknown["energy"] == "not measurable here: macOS tells energy to root alone"
    assert all(record[name] is None for name in unknown)


def fake_nvml(monkeypatch, chips) -> None:
    """An NVML with GPUs of these names, bytes and compute capabilities."""
    import pynvml

    for name, answer in {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: len(chips),
        "nvmlDeviceGetHandleByIndex": chips.__getitem__,
        "nvmlDeviceGetName": lambda chip: chip[0],
        "nvmlDeviceGetMemoryInfo": lambda chip: SimpleNamespace(total=chip[1]),
        "nvmlDeviceGetCudaComputeCapability": lambda chip: chip[2],
        "nvmlSystemGetDriverVersion": lambda: "570.86.15",
    }.items():
        monkeypatch.setattr(pynvml, name, answer)


def test_nvidia_gpus_have_names_driver_memory_and_compute_capability(monkeypatch) -> None:
    fake_nvml(monkeypatch, [("NVIDIA H200", 150 << 30, (9, 0)), ("Tesla T4", 15 << 30, (7, 5))])
    assert hardware._nvidia_gpu() == {
        "gpu": "NVIDIA H200, Tesla T4",
        "gpu_driver": "570.86.15",
        "gpu_memory_bytes": 15 << 30,
        "gpu_compute": "7.5",
    }
    fake_nvml(monkeypatch, [])
    assert hardware._nvidia_gpu() == hardware.NO_GPU


def test_macos_cpu_comes_from_sysctl(monkeypatch) -> None:
    asked = []

    def answer(command, **_):
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, stdout="Apple M3 Pro\n")

    monkeypatch.setattr(subprocess, "run", answer)
    assert hardware._macos_cpu() == "Apple M3 Pro"
    assert asked == [("sysctl", "-n", "machdep.cpu.brand_string")]


def test_linux_cpu_models() -> None:
    assert hardware.parse_cpuinfo("processor\t: 0\nmodel name\t: AMD EPYC 9B14\nflags\t: fpu\n") == "AMD EPYC 9B14"
    assert hardware.parse_cpuinfo("processor\t: 0\nCPU implementer\t: 0x41\n") is None
    assert hardware.parse_lscpu(GRAVITON) == "Neoverse-V1"
    with pytest.raises(UnknownFactError):
        hardware.parse_lscpu('{"lscpu": []}')


def test_equal_gpus_are_counted() -> None:
    assert hardware.count_names(["H100", "H100", "A10"]) == "2 x H100, A10"
