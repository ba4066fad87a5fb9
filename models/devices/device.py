"""Device classes: which are here, what they can do, and how to wait for them. torch is imported when a device is asked.

"Device class" is the word of the whole project for cpu, cuda and mps; a chip of a class is torch's business.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from models.mechanism import TIE
from models.stream import DTYPES

if TYPE_CHECKING:
    import torch

DeviceClass = Literal["cpu", "cuda", "mps"]

DEVICE_CLASSES: tuple[DeviceClass, ...] = get_args(DeviceClass)

FLOAT32_TIE = 1e-6
"""In 32 bits scores this close are tied, as those within `TIE` are in 64: a product of unit keys is off by as much."""

AGREED = 1e-5
"""The tolerance of a device: a decision that the float64 reference takes by a larger margin falls the same way on it.
Margins are differences of cosines. Those of a softmax's shares are fractions, and the tolerance is `AGREED` / min(1,
temperature), as a share moves by so much when a cosine does. Metrics differ only by decisions closer than this."""

CPU_MEMORY = 1 << 28
"""Bytes that a batch of streams may take on a CPU, where more than the cache helps nobody."""


class DeviceError(ValueError):
    """This machine has no device of the class asked for, or not for these numbers."""


@dataclass(frozen=True)
class Capability:
    """What one chip can do.

    memory    bytes of the device in all; of a Mac, what Metal recommends to use at most; None where torch cannot tell
    compute   CUDA compute capability, such as "9.0"; None elsewhere
    dtypes    formats of keys, of `models.stream.DTYPES`, that it can compute with
    """

    device: DeviceClass
    name: str
    memory: int | None
    compute: str | None
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class Precision:
    """How numbers are held on a device.

    number  cosines, weights and scores: 64 bits for keys of float64, otherwise 32
    wide    running sums of few numbers that must not drift: 64 bits where the device has them
    tie     cosines this close are tied
    """

    number: torch.dtype
    wide: torch.dtype
    tie: float

    def tie_of_shares(self, temperature: float) -> float:
        """Votes and attention that differ by no more than this fraction are tied."""
        return self.tie if self.tie == TIE else self.tie / min(1.0, temperature)


def available_devices() -> tuple[DeviceClass, ...]:
    """Device classes of this machine that torch can compute on; `cpu` is always first."""
    import torch

    found = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return tuple(device for device in DEVICE_CLASSES if found[device])


def capabilities(device: DeviceClass) -> tuple[Capability, ...]:
    """One record a chip of `device` that this process sees; empty where there is none."""
    import torch

    if device not in available_devices():
        return ()
    if device == "cpu":
        pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return (Capability("cpu", "CPU", pages, None, DTYPES),)
    if device == "mps":
        memory = int(torch.mps.recommended_max_memory())
        return (Capability("mps", "Apple Metal", memory, None, tuple(d for d in DTYPES if d != "float64")),)
    chips = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return tuple(
        Capability("cuda", chip.name, chip.total_memory, f"{chip.major}.{chip.minor}", DTYPES) for chip in chips
    )


def precision(device: DeviceClass, dtype: str) -> Precision:
    """How a device computes with keys of `dtype`. Raises DeviceError where it cannot."""
    import torch

    if dtype == "float64":
        if device == "mps":
            raise DeviceError("mps has no float64: give `dtype: float32`, or run on cpu or cuda")
        return Precision(torch.float64, torch.float64, TIE)
    return Precision(torch.float32, torch.float32 if device == "mps" else torch.float64, FLOAT32_TIE)


def require(device: DeviceClass) -> None:
    """Raise DeviceError unless torch can compute on `device` here."""
    found = available_devices()
    if device not in found:
        raise DeviceError(f"this machine has no {device} that torch can use; it has {', '.join(found)}")


def synchronise(device: DeviceClass) -> None:
    """Wait until `device` has done everything it was given, so that a clock read next tells the truth."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "mps":
        torch.mps.synchronize()


def take_share(share: float) -> None:
    """Hold this process to a `share` of its CUDA device's memory: others that share the device get theirs."""
    import torch

    torch.cuda.set_per_process_memory_fraction(share)


def batch_memory(device: DeviceClass) -> int:
    """Bytes that a batch of streams may take on `device` now: half of what is free to this process (`take_share`).

    What torch keeps of tensors that are gone is free, though the driver does not know.
    """
    import torch

    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
        taken = torch.cuda.memory_allocated()
        kept = torch.cuda.memory_reserved() - taken
        mine = int(torch.cuda.get_per_process_memory_fraction() * total) - taken
        return max(0, min(int(free) + kept, mine)) // 2
    if device == "mps":
        return max(0, int(torch.mps.recommended_max_memory()) - int(torch.mps.current_allocated_memory())) // 2
    return CPU_MEMORY


def release_memory(device: DeviceClass) -> None:
    """Give back what torch keeps of tensors that are gone: it may lie in pieces, or be wanted by another process."""
    import torch

    if device == "cuda":
        torch.cuda.empty_cache()
    elif device == "mps":
        torch.mps.empty_cache()


def out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that a device's memory is full. Metal says so in words only."""
    import torch

    words = isinstance(error, RuntimeError) and "out of memory" in str(error)
    return words or isinstance(error, torch.OutOfMemoryError)


@contextmanager
def full_precision() -> Iterator[None]:
    """Products of 32-bit matrices in 32 bits, whatever the process allows: TF32 would blur cosines to three digits."""
    import torch

    backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
    before = [backend.fp32_precision for backend in backends]
    try:
        for_all = torch.get_float32_matmul_precision()
    except RuntimeError:  # torch does not tell once somebody has set a backend's own
        for_all = "highest"
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(for_all)
        for backend, precision in zip(backends, before, strict=True):
            backend.fp32_precision = precision
