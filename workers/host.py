"""A worker: one process on one machine that is prepared once and then runs batch after batch."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import Any

from models.devices.device import DeviceClass, take_share
from models.plugins import load_plugin
from workers.agreement import probe
from workers.allocator import keep_freed_memory
from workers.batch import BatchReport, BatchTask, load_mechanism, run_batch
from workers.hardware import hardware_id, read_hardware, this_machine
from workers.threads import pin_threads
from workers.warmup import compile_kernels, load_data, warm_device


@dataclass(frozen=True)
class Preparation:
    """What a sweep needs ready on a machine: data of its workloads, kernels of its mechanisms (as identities)."""

    workloads: tuple[dict[str, Any], ...]
    mechanisms: tuple[dict[str, Any], ...]
    dtype: str
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkerCard:
    """Who a worker is: its id, device class and process, and its machine's flat hardware record under `hardware`.

    accelerator: the model of GPU that it was placed on; None on a CPU
    machine: what kind of machine it measures times on, as `workers.hardware.this_machine` tells it
    agreement: what `workers.agreement` found, as plain data; None if it was not asked
    """

    id: str
    device: DeviceClass
    pid: int
    hardware: str
    record: dict[str, Any]
    accelerator: str | None = None
    machine: str | None = None
    agreement: dict[str, Any] | None = None


class WorkerHost:
    """Runs batches in this process, on one thread of arithmetic, for one device class.

    stand_in: computes in place of that class on a machine that lacks it, by the same code; for clusters of fake nodes
    share: of a CUDA device's memory that is its own, where several workers share the device
    """

    def __init__(
        self,
        preparation: Preparation,
        device: DeviceClass = "cpu",
        accelerator: str | None = None,
        stand_in: DeviceClass | None = None,
        share: float = 1.0,
    ) -> None:
        self._stand_in = stand_in
        if share < 1.0 and (stand_in or device) == "cuda":
            take_share(share)
        pin_threads(1)
        keep_freed_memory()
        for plugin in preparation.plugins:
            load_plugin(plugin)
        load_data(preparation.workloads)
        if device == "cpu":
            compile_kernels(preparation.mechanisms, preparation.dtype)
        else:
            warm_device(stand_in or device, preparation.mechanisms, preparation.dtype)
        configs = [load_mechanism(tree) for tree in preparation.mechanisms]
        agreement = probe(configs, device, preparation.dtype, stand_in)
        record = read_hardware(device).flat()
        self.card = WorkerCard(
            id=uuid.uuid4().hex[:12],
            device=device,
            pid=os.getpid(),
            hardware=hardware_id(record),
            record=record,
            accelerator=accelerator,
            machine=this_machine(device),
            agreement=agreement.as_json(),
        )

    def run(self, task: BatchTask) -> BatchReport:
        """Run one batch. Raises ValueError if it is for another device class."""
        if task.device != self.card.device:
            raise ValueError(f"a batch for {task.device} was handed to a worker on {self.card.device}")
        return run_batch(task, self._stand_in)
