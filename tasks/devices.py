"""Which device classes may compute a trial: what its spec asks for, what its job type and its mechanism can do."""

from __future__ import annotations

from typing import Literal, get_args

from models.config import MechanismConfig
from models.devices.device import DEVICE_CLASSES, DeviceClass
from models.devices.form import objection
from models.mechanism import MECHANISMS
from tasks.kind import KINDS
from tasks.workload import WORKLOADS, WorkloadConfig

AskedDevice = Literal["cpu", "cuda", "mps", "any"]
"""What a spec asks for and a cell is made for. `any` is a class of its own: a worker of whatever class takes the trial,
and the trial's result says which did. Hence trials for `any` are reused by sweeps that ask for `any`, on whatever
device they were computed, and never by one that asks for `cpu`, `cuda` or `mps`; nor the other way round."""

assert get_args(AskedDevice) == (*DEVICE_CLASSES, "any")


def classes_for(
    asked: AskedDevice, kind: str, mechanism: MechanismConfig, dtype: str, workload: WorkloadConfig | None = None
) -> frozenset[DeviceClass]:
    """Device classes that may compute trials of `mechanism`, with keys of `dtype`, in a sweep of `kind` (a name)."""
    wanted = DEVICE_CLASSES if asked == "any" else (asked,)
    return frozenset(device for device in wanted if hindrance(device, kind, mechanism, dtype, workload) is None)


def hindrance(
    device: DeviceClass, kind: str, mechanism: MechanismConfig, dtype: str, workload: WorkloadConfig | None = None
) -> str | None:
    """Why such trials cannot run on `device`; None where they can. Asks no device, and loads no torch."""
    able = KINDS.implementation(kind).devices()
    if device not in able:
        return f"`kind: {kind}` runs on {', '.join(able)} only"
    if device == "mps" and dtype == "float64":
        return "mps has no float64: give `dtype: float32`, or run on cpu or cuda"
    if workload is not None and device != "cpu" and not MECHANISMS.implementation(mechanism.name).reads_ids:
        alone = WORKLOADS.implementation(workload.name).cpu_alone(workload)
        if alone is not None:
            return f"`{workload.name}`: {alone}"
    return objection(mechanism, device)
