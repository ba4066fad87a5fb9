"""Energy while a block of code runs: of the processor by RAPL, of an NVIDIA GPU by NVML.

Counters are of a whole package or GPU: what else computes on it at the time is counted with it.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from workers.facts import UnknownFactError, ask

POWERCAP = Path("/sys/class/powercap")

MOST_WATTS = 1000.0
"""No package draws more. A counter that so much would take through its whole range may have gone round unseen."""


class EnergyCounter(ABC):
    """Counts energy up. `name` says what it reads, and of what."""

    name: str

    @abstractmethod
    def read(self) -> Sequence[int]:
        """The counts of its parts, now. Raises UnknownFactError."""

    @abstractmethod
    def joules(self, before: Sequence[int], after: Sequence[int], seconds: float) -> float:
        """Energy between two readings that lie `seconds` apart. Raises UnknownFactError where they do not tell."""


class RaplCounter(EnergyCounter):
    """Running average power limit counters of the processor packages, as Linux shows them (Intel and AMD)."""

    def __init__(self, powercap: Path) -> None:
        """Raises UnknownFactError where the system shows no counter of a package, or keeps it from this user."""
        zones = [zone for zone in sorted(powercap.glob("intel-rapl:*")) if zone.name.count(":") == 1]
        try:
            named = {zone: (zone / "name").read_text().strip() for zone in zones}
            packages = {zone: name for zone, name in named.items() if name.startswith("package")}
            self._ranges = [int((zone / "max_energy_range_uj").read_text()) for zone in packages]
            self._files = [os.open(zone / "energy_uj", os.O_RDONLY) for zone in packages]
            self.read()
        except (OSError, ValueError) as error:
            raise UnknownFactError(f"not measurable here: the RAPL counter cannot be read ({error})") from error
        if not packages:
            raise UnknownFactError("not measurable here: the system shows no RAPL counter")
        self.name = f"rapl: {', '.join(packages.values())}"

    def read(self) -> list[int]:
        """Microjoules of each package."""
        return [int(os.pread(file, 32, 0)) for file in self._files]

    def joules(self, before: Sequence[int], after: Sequence[int], seconds: float) -> float:
        """The sum over packages; each count starts anew at the end of its range."""
        if seconds * MOST_WATTS * 1e6 > min(self._ranges):
            raise UnknownFactError("the RAPL counter may have gone round more than once meanwhile")
        parts = zip(before, after, self._ranges, strict=True)
        return sum((last - first) % (largest + 1) for first, last, largest in parts) / 1e6


class NvmlCounter(EnergyCounter):
    """The counter of the GPU that this process computes on (Volta and later)."""

    def __init__(self) -> None:
        """Raises UnknownFactError where NVIDIA's driver does not tell."""
        import pynvml
        import torch

        try:
            pynvml.nvmlInit()
            uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
            self._handle: Any = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.removeprefix('GPU-')}")
            self.name = f"nvml: {pynvml.nvmlDeviceGetName(self._handle)}"
            self.read()
        except (pynvml.NVMLError, RuntimeError, AssertionError) as error:  # torch's own complaints
            raise UnknownFactError(f"not measurable here: NVML counts no energy of this GPU ({error})") from error

    def read(self) -> list[int]:
        """Millijoules since the driver was loaded."""
        import pynvml

        try:
            return [int(pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))]
        except pynvml.NVMLError as error:
            raise UnknownFactError(f"NVML did not answer: {error}") from error

    def joules(self, before: Sequence[int], after: Sequence[int], seconds: float) -> float:
        """The difference."""
        return (after[0] - before[0]) / 1e3


def energy_counter(device: str) -> EnergyCounter:
    """The counter of what a process computes on. Raises UnknownFactError where there is none; asked once a process."""
    counter = _counter(device)
    if isinstance(counter, UnknownFactError):
        raise counter
    return counter


@functools.cache
def _counter(device: str) -> EnergyCounter | UnknownFactError:
    if device == "cuda":
        return ask(NvmlCounter)
    if sys.platform == "darwin":
        return UnknownFactError("not measurable here: macOS tells energy to root alone")
    return ask(lambda: RaplCounter(POWERCAP))


class EnergyMeter:
    """Energy of the code inside `with`.

    joules  None where it cannot be told
    reason  why, unless there is no counter at all: the hardware record says why not
    """

    __slots__ = ("_before", "_began", "_counter", "joules", "reason")

    def __init__(self, device: str) -> None:
        counter = _counter(device)
        self._counter = None if isinstance(counter, UnknownFactError) else counter
        self.joules: float | None = None
        self.reason: str | None = None

    def __enter__(self) -> Self:
        self._before = None if self._counter is None else ask(self._counter.read)
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        if self._counter is None or self._before is None:
            return
        try:
            if isinstance(self._before, UnknownFactError):
                raise self._before
            seconds = time.monotonic() - self._began
            self.joules = self._counter.joules(self._before, self._counter.read(), seconds) or None
        except UnknownFactError as unknown:
            self.reason = str(unknown)
        else:
            self.reason = None if self.joules else "over before the counter took its next step"
