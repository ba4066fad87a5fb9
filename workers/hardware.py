"""What trials run on: the hardware record of a process."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from workers.energy import energy_counter
from workers.facts import UnknownFactError, ask
from workers.threads import threads_in_use, usable_cpus

Value = str | int | bool | None

COMMAND_SECONDS = 1.0
"""Longest wait for one outside command; what has not answered by then is recorded as unknown."""

MACHINE_FIELDS = ("cpu_model", "cores", "cpus", "threads", "ram_bytes", "os", "gpu", "gpu_driver", "device")
"""The fields that name the machine and how much of it is used, as opposed to the software on it."""

CHECKOUT = Path(__file__).resolve().parent.parent

GIT_VARIABLE = "SLOTSWEEP_GIT"
"""Where whoever starts a worker from an archive says of which commit that is: `COMMIT clean` or `COMMIT dirty`."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine and the software of one process. None means unknown, and `reasons` says why.

    cpu_model         the maker's name
    cores             physical cores of the machine
    cpus              logical CPUs this process may run on
    threads           threads a numeric library may use in this process
    ram_bytes         main memory of the machine
    gpu               names of the GPUs, or "none"
    gpu_driver        its version (of Metal on a Mac), or "none"
    gpu_memory_bytes  memory of a GPU, the smallest if there are several
    gpu_compute       CUDA compute capability such as "9.0", the lowest if there are several
    device            device class this process computes on: cpu, cuda or mps
    energy            the counter that energy is read from
    blas              library behind numpy's matrix products
    git_commit        of slotsweep itself, with `git_dirty`: tracked files differ from it
    """

    cpu_model: str | None
    cores: int | None
    cpus: int
    threads: int
    ram_bytes: int
    os: str
    gpu: str | None
    gpu_driver: str | None
    gpu_memory_bytes: int | None
    gpu_compute: str | None
    device: str
    energy: str | None
    python: str
    numpy: str | None
    numba: str | None
    torch: str | None
    ray: str | None
    blas: str | None
    git_commit: str | None
    git_dirty: bool | None
    reasons: Mapping[str, str]

    def flat(self) -> dict[str, Value]:
        """Field by field, each None followed by its reason under `NAME_reason`."""
        record: dict[str, Value] = {}
        for field in fields(self):
            if field.name == "reasons":
                continue
            record[field.name] = getattr(self, field.name)
            if record[field.name] is None:
                record[f"{field.name}_reason"] = self.reasons[field.name]
        return record


def hardware_id(record: Mapping[str, Any]) -> str:
    """32 hex digits that stand for a whole flat record: machine, software and commit."""
    return _digest(record)


def machine_id(record: Mapping[str, Any]) -> str:
    """32 hex digits that stand for the machine alone: times and energies measured under equal ids compare.

    Memory counts in whole GiB: of two machines of one kind, firmware and kernels keep some pages more on one.
    """
    ram = record.get("ram_bytes")
    fields = {name: record.get(name) for name in MACHINE_FIELDS}
    return _digest({**fields, "ram_bytes": None if ram is None else round(ram / 2**30)})


def this_machine(device: str = "cpu") -> str:
    """The `machine_id` of this machine for what a worker of it computes on `device`.

    That worker has one thread and the machine's CPUs, whatever this process was started with.
    """
    return machine_id({**read_hardware(device).flat(), "threads": 1, "cpus": os.cpu_count()})


def _digest(tree: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:32]


def read_hardware(device: str = "cpu") -> Hardware:
    """The record of this process, which computes on `device`. Loads no numeric library.

    The slow facts (CPU model, GPU, git) are read once a process; threads and BLAS at each call.
    """
    facts = dict(_machine_facts())
    facts |= {"blas": ask(_blas), "energy": ask(lambda: energy_counter(device).name)}
    reasons = {name: str(value) for name, value in facts.items() if isinstance(value, UnknownFactError)}
    known: dict[str, Any] = {name: None if name in reasons else value for name, value in facts.items()}
    return Hardware(device=device, cpus=usable_cpus(), threads=threads_in_use(), reasons=reasons, **known)


@functools.cache
def _machine_facts() -> Mapping[str, Value | UnknownFactError]:
    import psutil

    on_macos = sys.platform == "darwin"
    return {
        "cpu_model": ask(_macos_cpu if on_macos else _linux_cpu),
        "cores": psutil.cpu_count(logical=False) or UnknownFactError("the system does not tell its physical cores"),
        "ram_bytes": psutil.virtual_memory().total,
        "os": _operating_system(),
        **_graphics(_macos_gpu if on_macos else _nvidia_gpu),
        "python": platform.python_version(),
        **{name: ask(functools.partial(_version, name)) for name in ("numpy", "numba", "torch", "ray")},
        "git_commit": ask(_commit),
        "git_dirty": ask(_is_dirty),
    }


def _output(*command: str) -> str:
    """What `command` prints. Raises UnknownFactError if it is missing, fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise UnknownFactError(f"`{command[0]}` did not answer: {error}") from error
    return done.stdout.strip()


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError as error:
        raise UnknownFactError(f"{distribution} is not installed") from error


def _commit() -> str:
    told = os.environ.get(GIT_VARIABLE)
    return told.split()[0] if told else _git("rev-parse", "HEAD")


def _is_dirty() -> bool:
    told = os.environ.get(GIT_VARIABLE)
    return told.endswith("dirty") if told else bool(_git("status", "--porcelain", "--untracked-files=no"))


def _git(*arguments: str) -> str:
    # An installed copy may lie in a virtual environment inside somebody else's repository: that commit is not ours.
    if not (CHECKOUT / ".git").exists():
        raise UnknownFactError("slotsweep is installed, not run from a git checkout")
    return _output("git", "-C", str(CHECKOUT), *arguments)


def _operating_system() -> str:
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]} {platform.machine()}"
    try:
        distribution = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        distribution = platform.system()
    return f"{distribution}, {platform.system()} {platform.release()} {platform.machine()}"


def _linux_cpu() -> str:
    try:
        model = parse_cpuinfo(Path("/proc/cpuinfo").read_text())
    except OSError:
        model = None
    # ARM kernels print part numbers there; `lscpu` knows their names.
    return model or parse_lscpu(_output("lscpu", "--json"))


def parse_cpuinfo(text: str) -> str | None:
    """The model name in Linux's /proc/cpuinfo; None where the kernel does not print one."""
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == "model name"), None)


def parse_lscpu(text: str) -> str:
    """The model name in the JSON of `lscpu --json`. Raises UnknownFactError if it is not there."""
    for entry in json.loads(text)["lscpu"]:
        if entry["field"] == "Model name:":
            return str(entry["data"])
    raise UnknownFactError("neither /proc/cpuinfo nor lscpu names the CPU")


def _macos_cpu() -> str:
    return _output("sysctl", "-n", "machdep.cpu.brand_string")


Graphics = dict[str, Value | UnknownFactError]
"""The facts about GPUs by their fields."""

NO_GPU: Graphics = {
    **dict.fromkeys(("gpu", "gpu_driver"), "none"),
    **dict.fromkeys(("gpu_memory_bytes", "gpu_compute"), UnknownFactError("there is no GPU")),
}


def _graphics(read: Callable[[], Graphics]) -> Graphics:
    try:
        return read()
    except UnknownFactError as unknown:
        return dict.fromkeys(NO_GPU, unknown)


def _nvidia_gpu() -> Graphics:
    """What NVIDIA's driver says of its GPUs."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return NO_GPU
    except pynvml.NVMLError as error:
        raise UnknownFactError(f"NVIDIA's driver does not answer: {error}") from error
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        if not handles:
            return NO_GPU
        major, minor = min(pynvml.nvmlDeviceGetCudaComputeCapability(handle) for handle in handles)
        return {
            "gpu": count_names([pynvml.nvmlDeviceGetName(handle) for handle in handles]),
            "gpu_driver": pynvml.nvmlSystemGetDriverVersion(),
            "gpu_memory_bytes": min(int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) for handle in handles),
            "gpu_compute": f"{major}.{minor}",
        }
    except pynvml.NVMLError as error:
        raise UnknownFactError(f"NVIDIA's driver does not answer: {error}") from error
    finally:
        pynvml.nvmlShutdown()


def _macos_gpu() -> Graphics:
    return parse_displays(_output("system_profiler", "SPDisplaysDataType", "-json"))


def parse_displays(text: str) -> Graphics:
    """GPU names with their cores, and the Metal version, in the JSON of `system_profiler SPDisplaysDataType -json`."""
    adapters = json.loads(text)["SPDisplaysDataType"]
    if not adapters:
        return NO_GPU
    names = []
    for adapter in adapters:
        name, cores = adapter["sppci_model"], adapter.get("sppci_cores")
        names.append(f"{name} ({cores} cores)" if cores else name)
    metal = adapters[0].get("spdisplays_mtlgpufamilysupport", "spdisplays_metal_unknown")
    return {
        "gpu": count_names(names),
        "gpu_driver": metal.removeprefix("spdisplays_"),
        "gpu_memory_bytes": UnknownFactError("it shares the main memory"),
        "gpu_compute": UnknownFactError("Metal has no compute capability"),
    }


def count_names(names: Sequence[str]) -> str:
    """Names in order, equal ones once with their count: "2 x H100, A10"."""
    counts = dict.fromkeys(names, 0)
    for name in names:
        counts[name] += 1
    return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items())


def _blas() -> str:
    if "numpy" not in sys.modules:
        raise UnknownFactError("numpy is not loaded")
    import numpy
    import threadpoolctl

    libraries = [library for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]
    if libraries:
        found = dict.fromkeys(f"{one['internal_api']} {one['version']}" for one in libraries)
        return ", ".join(found)
    # Apple's Accelerate is part of the system and unknown to threadpoolctl: numpy's build knows what it was linked to.
    built: Mapping[str, Any] = numpy.show_config(mode="dicts") or {}
    return str(built["Build Dependencies"]["blas"]["name"])
