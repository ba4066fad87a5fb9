"""What a machine offers a Ray cluster: cores, and its GPUs by device class, found without loading torch.

Ray counts NVIDIA's and Apple's GPUs alike, so nodes advertise resources of ours beside Ray's: `cuda` and `mps`, one a
device, and `cuda_memory`, the GiB of all CUDA devices together.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from models.devices.device import DeviceClass
from workers.threads import usable_cpus

CUDA_MEMORY = "cuda_memory"
CPU_NODE = "cpu_node"
"""The resource of machines that clouds start for work on CPUs: a request that names it starts none with GPUs."""

ACCELERATOR_TYPE = "accelerator_type:"
"""The resource in which Ray names a node's model of GPU."""

NVIDIA_NAME = re.compile(r"\w+\s+((?:[A-Z]+\s+)*[A-Z0-9]*\d[A-Z0-9]*)")
"""Ray's own pattern for the model in `NVIDIA H100 80GB HBM3`, `Tesla T4` or `NVIDIA RTX A6000`."""


@dataclass(frozen=True)
class Offer:
    """What one machine has: logical CPUs, devices of each class, the model of its GPU, GiB of its CUDA devices.

    unusable  why a GPU that is there cannot be used; None where none is, or it can
    """

    cpus: int
    cuda: int = 0
    mps: int = 0
    accelerator: str | None = None
    cuda_memory: int | None = None
    unusable: str | None = None

    @property
    def devices(self) -> tuple[DeviceClass, ...]:
        """Device classes of the machine."""
        found: dict[DeviceClass, int] = {"cpu": self.cpus, "cuda": self.cuda, "mps": self.mps}
        return tuple(device for device, count in found.items() if count)

    def resources(self) -> dict[str, float]:
        """Custom resources that its node advertises."""
        counts = {"cuda": self.cuda, "mps": self.mps, CUDA_MEMORY: self.cuda_memory or 0}
        if self.mps and self.accelerator:  # Ray names NVIDIA's itself
            counts[f"{ACCELERATOR_TYPE}{self.accelerator}"] = 1
        return {name: float(count) for name, count in counts.items() if count}


def this_machine_offers(cpus: int | None = None) -> Offer:
    """What this machine has; `cpus` of its CPUs if given."""
    count = usable_cpus() if cpus is None else cpus
    chip = apple_chip()
    if chip is not None:
        return Offer(count, mps=1, accelerator=chip)
    names, gibibytes = nvidia_gpus()
    if not names:
        return Offer(count)
    if (why := torch_without_cuda()) is not None:
        return Offer(count, unusable=why)
    return Offer(count, cuda=len(names), accelerator=nvidia_model(names[0]), cuda_memory=gibibytes)


def nvidia_gpus() -> tuple[Sequence[str], int]:
    """Names of the NVIDIA GPUs that CUDA shows this process, and the GiB of all; none where the driver is silent."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return (), 0
    try:
        handles = _visible_handles(os.environ.get("CUDA_VISIBLE_DEVICES"))
        total = sum(int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) for handle in handles)
        return [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles], total >> 30
    except pynvml.NVMLError:
        return (), 0
    finally:
        pynvml.nvmlShutdown()


def _visible_handles(shown: str | None) -> list[Any]:
    """NVML's handles of the GPUs that `shown` lists; of all where it is None.

    As CUDA reads CUDA_VISIBLE_DEVICES (CUDA C++ Programming Guide, environment variables): indices, UUIDs or their
    beginnings, and MIG instances; whatever follows the first that is not there does not count.
    """
    import pynvml

    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    if shown is None:
        return handles
    found: list[Any] = []
    for name in map(str.strip, shown.split(",")):
        if name.startswith("MIG-"):
            matches = _instance(name)
        elif name.startswith("GPU-"):
            matches = [handle for handle in handles if str(pynvml.nvmlDeviceGetUUID(handle)).startswith(name)]
        else:
            matches = [handles[int(name)]] if name.isdecimal() and int(name) < len(handles) else []
        if len(matches) != 1:
            break
        found += matches
    return found


def _instance(name: str) -> list[Any]:
    """The handle of a MIG instance; none if it is not there."""
    import pynvml

    try:
        return [pynvml.nvmlDeviceGetHandleByUUID(name)]
    except pynvml.NVMLError:
        return []


def nvidia_model(name: str) -> str:
    """The model in a GPU's name, as Ray advertises it: `NVIDIA H100 80GB HBM3` is an H100, and of a name that does not
    fit Ray's pattern all but the maker is the model, as in GeForce-RTX-4090."""
    found = NVIDIA_NAME.match(name)
    model = found.group(1) if found else name.strip().removeprefix("NVIDIA ").strip()
    return model.replace(" ", "-")


def torch_without_cuda() -> str | None:
    """Why the torch that is installed cannot use an NVIDIA GPU; None if its build can."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "torch is not installed"
    build = version.partition("+")[2]
    return f"torch {version} is built for {build}" if build and not build.startswith("cu") else None


def apple_chip() -> str | None:
    """The chip of a Mac that torch can compute on, as Ray names it: M3-Max. None on other machines."""
    if sys.platform != "darwin":
        return None
    try:
        brand = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=True, timeout=5
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return apple_model(brand)


def apple_model(brand: str) -> str | None:
    """`Apple M3 Max` is an M3-Max; None for an Intel Mac's."""
    maker, _, model = brand.strip().partition(" ")
    return model.replace(" ", "-") if maker == "Apple" and model else None
