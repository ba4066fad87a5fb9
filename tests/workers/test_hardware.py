from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from workers import hardware
from workers.hardware import ResourceMeter, UnknownFactError, hardware_id, machine_id, read_hardware

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


def mebibytes(count: int) -> bytearray:
    """Memory that is really there: every page is written."""
    block = bytearray(count << 20)
    block[::4096] = b"x" * len(block[::4096])
    return block


def test_every_unknown_fact_has_a_reason_and_every_known_one_a_value() -> None:
    record = read_hardware().flat()
    for name, value in record.items():
        assert (value is None) == (f"{name}_reason" in record), name
    assert record["cores"] != 0
    assert record["ram_bytes"] > 100 << 20
    assert record["device"] == "cpu"
    assert record["cpu_model"]


def test_energy_is_a_counter_or_unknown_with_the_reason_but_never_zero(tmp_path, monkeypatch) -> None:
    counter = tmp_path / "energy_uj"
    monkeypatch.setattr(hardware, "RAPL_COUNTER", counter)
    with pytest.raises(UnknownFactError, match="not measurable here: the system shows no RAPL counter"):
        hardware._energy_counter()
    counter.write_text("not a number")
    with pytest.raises(UnknownFactError, match="cannot be read"):
        hardware._energy_counter()
    counter.write_text("1234567\n")
    assert hardware._energy_counter() == "rapl"


def test_reading_is_quick_and_loads_no_numeric_library() -> None:
    program = (
        "import sys, time; from workers.hardware import read_hardware; start = time.perf_counter(); read_hardware();"
        "print(time.perf_counter() - start, *({'torch', 'ray', 'numpy', 'numba'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert float(printed[0]) < 2.0
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


def test_macos_names_its_gpu_and_metal_version() -> None:
    assert hardware.parse_displays(M3_PRO) == ("Apple M3 Pro (18 cores)", "metal3")
    assert hardware.parse_displays('{"SPDisplaysDataType": []}') == ("none", "none")


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


def test_the_meter_sees_wall_and_cpu_time_apart() -> None:
    with ResourceMeter() as sleeping:
        time.sleep(0.1)
    with ResourceMeter() as working:
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
    assert sleeping.wall_seconds >= 0.1
    assert sleeping.cpu_seconds < 0.05
    assert working.cpu_seconds >= 0.1


def test_the_peak_is_the_blocks_own_where_the_system_allows() -> None:
    with ResourceMeter() as large:
        mebibytes(64)
    with ResourceMeter() as small:
        pass
    assert large.peak_memory_bytes > 64 << 20
    if small.peak_memory_reason is None:
        assert large.peak_memory_bytes - small.peak_memory_bytes > 48 << 20
    else:
        assert small.peak_memory_bytes >= large.peak_memory_bytes


def test_a_peak_that_cannot_be_reset_says_so(monkeypatch) -> None:
    monkeypatch.setattr(hardware, "_reset_peak", lambda: "since the process started: no reset here")
    mebibytes(32)
    with ResourceMeter() as meter:
        pass
    assert meter.peak_memory_reason == "since the process started: no reset here"
    assert meter.peak_memory_bytes > 32 << 20


def test_a_meter_costs_less_than_a_tenth_of_a_millisecond() -> None:
    costs = []
    for _ in range(50):
        start = time.perf_counter()
        with ResourceMeter():
            pass
        costs.append(time.perf_counter() - start)
    assert min(costs) < 1e-4
