"""What the machine was doing while a long trial ran: processor, memory and GPU, sampled beside the computation.

A thread of the worker's looks every two seconds, which takes it some 0.1 ms; after a while it looks less often. Names
and units are those of MLflow's system metrics, which its pages show in a tab of their own.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

SYSTEM = "system/"
"""Beginning of the names of series that tell of the machine and not of the trial: no result shows them."""

SYSTEM_SECONDS = "system/seconds"
"""When the numbers of those series were read, in seconds since the trial was started."""

INTERVAL_SECONDS = 2.0
LONG_SECONDS = 10.0
"""Trials that take less are not worth the numbers."""

MOST_SAMPLES = 240
MEGABYTE = 1e6

Sample = dict[str, float]
Probe = Callable[[], Sample]


class SystemSampler:
    """Samples taken while the code inside `with` runs on `device`."""

    def __init__(self, device: str) -> None:
        self._samples: list[tuple[float, Sample]] = []
        self._interval = INTERVAL_SECONDS
        self._over = threading.Event()
        self._device = device
        self._thread = threading.Thread(target=self._run, name="system-metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        probe: Probe | None = None
        while not self._over.wait(self._interval):
            if probe is None:  # not before the first interval has passed: most batches are over by then
                probe = system_probe(self._device)
                continue
            self._samples.append((time.time(), probe()))
            if len(self._samples) >= MOST_SAMPLES:
                del self._samples[::2]
                self._interval *= 2

    def series(self, started: float, finished: float) -> dict[str, list[float]]:
        """Samples from `started` to `finished` (seconds since the epoch) by name, and when, in seconds from `started`.

        A number that was not there every time is left out.
        """
        within = [(at, sample) for at, sample in self._samples if started <= at <= finished]
        if not within:
            return {}
        always = set.intersection(*(set(sample) for _, sample in within))
        named = {f"{SYSTEM}{name}": [sample[name] for _, sample in within] for name in within[0][1] if name in always}
        return {SYSTEM_SECONDS: [round(at - started, 3) for at, _ in within], **named}


def system_probe(device: str) -> Probe:
    """What reads this machine: the process everywhere, the system on Linux, the GPU it computes on with CUDA."""
    probes: list[Probe] = [_process_probe()]
    if sys.platform == "linux":
        probes.append(_linux_probe())
    if device == "cuda" and (gpu := _gpu_probe()) is not None:
        probes.append(gpu)
    return lambda: {name: value for probe in probes for name, value in probe().items()}


def _process_probe() -> Probe:
    """The share of one core that this process takes (above 100 with several threads), since the last look."""
    seen = [time.perf_counter(), time.process_time()]

    def read() -> Sample:
        now = [time.perf_counter(), time.process_time()]
        elapsed, used = (new - old for new, old in zip(now, seen, strict=True))
        seen[:] = now
        return {"process_cpu_percentage": round(100 * used / elapsed, 1)} if elapsed > 0 else {}

    return read


def _linux_probe() -> Probe:
    """Processors and memory of the machine, and resident memory of this process, from /proc."""
    page = os.sysconf("SC_PAGE_SIZE")
    seen = _processor_times()

    def read() -> Sample:
        nonlocal seen
        before, seen = seen, _processor_times()
        busy, whole = (new - old for new, old in zip(seen, before, strict=True))
        with open("/proc/self/statm", "rb") as file:
            resident = int(file.read().split()[1]) * page
        total, available = _memory()
        sample = {
            "process_memory_usage_megabytes": round(resident / MEGABYTE, 1),
            "system_memory_usage_megabytes": round((total - available) / MEGABYTE, 1),
            "system_memory_usage_percentage": round(100 * (total - available) / total, 1),
        }
        return sample | ({"cpu_utilization_percentage": round(100 * busy / whole, 1)} if whole > 0 else {})

    return read


def _processor_times() -> tuple[int, int]:
    """Ticks that all processors were busy, and all their ticks."""
    with open("/proc/stat", "rb") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _memory() -> tuple[int, int]:
    """Bytes of memory, and of those that could be had."""
    with open("/proc/meminfo", "rb") as file:
        lines: Mapping[bytes, bytes] = dict(line.split(b":", 1) for line in file)
    return tuple(1024 * int(lines[name].split()[0]) for name in (b"MemTotal", b"MemAvailable"))  # type: ignore[return-value]


def _gpu_probe() -> Probe | None:
    """The GPU that this process computes on, through NVML; None where the driver does not answer."""
    import pynvml
    import torch

    try:
        pynvml.nvmlInit()
        uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
        handle: Any = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.removeprefix('GPU-')}")
    except (pynvml.NVMLError, RuntimeError, AssertionError):
        return None

    def read() -> Sample:
        sample: Sample = {}
        try:
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            sample["gpu_0_memory_usage_megabytes"] = round(memory.used / MEGABYTE, 1)
            sample["gpu_0_memory_usage_percentage"] = round(100 * memory.used / memory.total, 1)
            sample["gpu_0_utilization_percentage"] = float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            sample["gpu_0_power_usage_watts"] = pynvml.nvmlDeviceGetPowerUsage(handle) / 1000
        except pynvml.NVMLError:  # what was read until then stands
            pass
        return sample

    return read
