"""What a user says of a cluster that is to be rendered."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.cluster.node_types import CloudTypes, NodeType
from orchestrator.errors import RequestError
from orchestrator.fleet import same_model

Place = Literal["aws", "gcp", "kuberay", "skypilot"]
"""What starts a cluster."""

MOST_GPUS = 4
"""Of each model, where a user does not say how many."""

MOST = 1000
"""Of anything: more are a slip of the finger."""

HOME = "/var/lib/slotsweep"
"""The folder of compiled kernels, half-way trainings and reports, at the same place on every node."""

REGISTRY = "REGISTRY"
"""Stands for where the images are: a name with capitals is refused, and looked for nowhere."""


def default_image() -> str:
    """The image that `docker/Dockerfile` builds of this version, without the variant."""
    return f"{REGISTRY}/slotsweep:{importlib.metadata.version('slotsweep')}"


class GpuCount(BaseModel):
    """So many GPUs of a model, at most."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    count: int = Field(ge=1, le=MOST)


class ClusterOptions(BaseModel):
    """A cluster. Machines begin when they are needed, and end when they are idle."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = "slotsweep"
    gpus: tuple[GpuCount, ...] | None = Field(None, description="None: a few of every model there is")
    workers: int = Field(8, ge=0, le=MOST, description="most CPU machines")
    cpus: int = Field(8, ge=1, le=MOST, description="logical CPUs of each of them, at least")
    max_workers: int | None = Field(None, ge=1, le=MOST, description="most machines together; None: all that are named")
    spot: bool = Field(True, description="machines that the cloud may take back, at a lower price")
    region: str | None = None
    zone: str | None = None
    image: str = Field(default_factory=default_image, description="without the variant that follows")
    machine_image: str | None = Field(None, description="what the clouds' machines boot from")
    project: str | None = Field(None, description="Google Cloud's project")
    storage: str | None = Field(None, description="where the home of all machines is; None: each has its own")
    idle_minutes: int = Field(10, ge=1, le=24 * 60)

    def images(self, variant: str) -> str:
        """The image of a variant: cpu, cuda, or head."""
        return f"{self.image}-{variant}"

    def chosen_gpus(self, known: Sequence[str]) -> list[GpuCount] | None:
        """The GPUs that were named, by their names in `known`; None: none was.

        Raises RequestError for a model that is not known, or is named twice.
        """
        if self.gpus is None:
            return None
        found: dict[str, GpuCount] = {}
        for one in self.gpus:
            model = next((name for name in known if same_model(one.model, name)), None)
            if model is None:
                raise RequestError(f"--gpus {one.model}: known here are {', '.join(known)}")
            if model in found:
                raise RequestError(f"--gpus {one.model}:{one.count}: {model} is named twice")
            found[model] = GpuCount(model=model, count=one.count)
        return list(found.values())

    def gpu_nodes(self, cloud: CloudTypes) -> list[tuple[str, NodeType, int]]:
        """Machine types with GPUs, by name, and how many machines of each it may be: no more GPUs than were named.

        Raises RequestError for GPUs that the cloud does not have, or has not in so small a number, or only in spot
        machines where these are not to be.
        """
        asked = self.chosen_gpus(cloud.models)
        if asked is None:
            few = (GpuCount(model=one, count=MOST_GPUS) for one in cloud.models)
            return [_machines(one, cloud) for one in few if self._hindrance(one, cloud) is None]
        for one in asked:
            if (why := self._hindrance(one, cloud)) is not None:
                raise RequestError(f"--gpus {one.model}:{one.count}: {why}")
        return [_machines(one, cloud) for one in asked]

    def _hindrance(self, asked: GpuCount, cloud: CloudTypes) -> str | None:
        """Why the cloud does not have what was asked for; None: it has."""
        name, machine = cloud.with_gpu(asked.model)
        if machine.gpus > asked.count:
            return f"the smallest machine here that has it, {name}, has {machine.gpus}"
        if machine.spot_only and not self.spot:
            return f"{name} is to be had as a spot machine only"
        return None

    def most(self, counts: Iterable[int]) -> int:
        """How many machines there may be, of those that there may be of each type.

        Raises RequestError where there are none, or fewer than were said to be the most.
        """
        named = sum(counts)
        if named == 0:
            raise RequestError("--workers 0 without GPUs leaves no machine that could compute")
        if self.max_workers is not None and self.max_workers > named:
            raise RequestError(f"--max-workers {self.max_workers}: --workers and --gpus allow {named}")
        return named if self.max_workers is None else self.max_workers


def _machines(asked: GpuCount, cloud: CloudTypes) -> tuple[str, NodeType, int]:
    name, machine = cloud.with_gpu(asked.model)
    return name, machine, asked.count // machine.gpus


def gpu_counts(texts: Iterable[str]) -> tuple[GpuCount, ...]:
    """GPUs of `--gpus`, each as in `gpu_count`; `none` alone: no GPUs. Raises RequestError."""
    told = [text.strip() for text in texts]
    if "none" not in told:
        return tuple(gpu_count(text) for text in told)
    if len(told) > 1:
        raise RequestError("--gpus none goes with no other --gpus")
    return ()


def gpu_count(text: str) -> GpuCount:
    """`MODEL:COUNT`, or `MODEL` for one. Raises RequestError."""
    found = re.fullmatch(r"(?P<model>[A-Za-z][\w -]*?)(?::(?P<count>[1-9]\d{0,5}))?", text.strip())
    if found is None:
        raise RequestError(f"--gpus {text}: expected MODEL:COUNT, such as T4:4")
    count = int(found["count"] or 1)
    if count > MOST:
        raise RequestError(f"--gpus {text}: {MOST} at most")
    return GpuCount(model=found["model"], count=count)
