"""A worker: one process on one machine that is prepared once and then runs batch after batch."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import Any

from models.plugins import load_plugin
from workers.batch import BatchReport, BatchTask, run_batch
from workers.hardware import hardware_id, read_hardware
from workers.threads import pin_threads
from workers.warmup import compile_kernels, load_data


@dataclass(frozen=True)
class Preparation:
    """What a sweep needs ready on a machine: data of its workloads, kernels of its mechanisms (as identities)."""

    workloads: tuple[dict[str, Any], ...]
    mechanisms: tuple[dict[str, Any], ...]
    dtype: str
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkerCard:
    """Who a worker is: its id, device class and process, and its machine's flat hardware record under `hardware`."""

    id: str
    device: str
    pid: int
    hardware: str
    record: dict[str, Any]


class WorkerHost:
    """Runs batches in this process, on one thread of arithmetic."""

    def __init__(self, preparation: Preparation, threads: int = 1) -> None:
        pin_threads(threads)
        for plugin in preparation.plugins:
            load_plugin(plugin)
        load_data(preparation.workloads)
        compile_kernels(preparation.mechanisms, preparation.dtype)
        record = read_hardware().flat()
        self.card = WorkerCard(
            id=uuid.uuid4().hex[:12],
            device="cpu",
            pid=os.getpid(),
            hardware=hardware_id(record),
            record=record,
        )

    def run(self, task: BatchTask) -> BatchReport:
        """Run one batch."""
        return run_batch(task)
