"""What a block of code costs in time and memory."""

from __future__ import annotations

import sys
import time
from typing import Self


class ResourceMeter:
    """Wall time, CPU time and peak memory of the code inside `with`, which computes on `device`.

    wall_seconds         elapsed
    cpu_seconds          user and system time of all threads of this process
    peak_memory_bytes    largest resident memory of this process inside the block
    peak_memory_reason   None, or why the peak is not the block's own: it then covers the process since it started
    device_memory_bytes  most that tensors took on a CUDA device; None on others: a CPU has none of its own, and of
                         Metal torch keeps no peak

    Meters do not nest and are not for several threads at once: the peak that the system keeps is the process's.
    """

    __slots__ = (
        "_cpu",
        "_device",
        "_wall",
        "cpu_seconds",
        "device_memory_bytes",
        "peak_memory_bytes",
        "peak_memory_reason",
        "wall_seconds",
    )

    def __init__(self, device: str = "cpu") -> None:
        self._device = device

    def __enter__(self) -> Self:
        self.peak_memory_reason = _reset_peak()
        if self._device == "cuda":
            import torch

            torch.cuda.reset_peak_memory_stats()
        self._cpu = time.process_time()
        self._wall = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_seconds = time.perf_counter() - self._wall
        self.cpu_seconds = time.process_time() - self._cpu
        self.peak_memory_bytes = _peak_since_start() if self.peak_memory_reason else _peak_since_reset()
        self.device_memory_bytes: int | None = None
        if self._device == "cuda":
            import torch

            self.device_memory_bytes = int(torch.cuda.max_memory_allocated())


def _reset_peak() -> str | None:
    """Make the system forget the largest memory of this process; the reason why it cannot, or None."""
    try:
        with open("/proc/self/clear_refs", "wb", buffering=0) as file:
            file.write(b"5")
    except OSError:
        return "since the process started: this system does not reset the peak"
    return None


def _peak_since_reset() -> int:
    with open("/proc/self/status", "rb", buffering=0) as file:
        status = file.read()
    start = status.index(b"VmHWM:") + len(b"VmHWM:")
    return int(status[start : status.index(b"kB", start)]) * 1024


def _peak_since_start() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
