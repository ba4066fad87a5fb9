"""Machine types of clouds: what a node of each offers a Ray cluster, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from models.devices.device import DeviceClass
from orchestrator.errors import RequestError
from orchestrator.executors.placing import places
from orchestrator.fleet import Node, Want
from workers.devices import ACCELERATOR_TYPE, CPU_NODE, CUDA_MEMORY

Cloud = Literal["aws", "gcp"]
CLOUDS: tuple[Cloud, ...] = ("aws", "gcp")
TABLE = Path(__file__).with_name("node_types.yaml")


class NodeType(BaseModel):
    """A machine type, as the table has it. Prices are USD an hour; None: the table has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpus: int = Field(ge=1, description="logical CPUs")
    memory: int = Field(ge=1, description="GiB of main memory")
    gpu: str | None = Field(None, description="model of its GPUs, as Ray names it")
    gpus: int = Field(0, ge=0, description="how many GPUs it has")
    gpu_memory: int = Field(0, ge=0, description="MiB of one GPU")
    on_demand: float | None = Field(None, gt=0)
    spot: float | None = Field(None, gt=0)
    spot_only: bool = Field(False, description="whether its cloud has it as a spot machine only")
    source: str = Field(description="where the prices come from, and of when")

    @property
    def cuda_gib(self) -> int:
        """GiB of all its GPUs together, as `slotsweep worker` counts them."""
        return self.gpus * self.gpu_memory >> 10

    @property
    def custom_resources(self) -> dict[str, int]:
        """What its node advertises beside what Ray knows of."""
        if self.gpu is None:
            return {CPU_NODE: 1}
        return {"cuda": self.gpus, CUDA_MEMORY: self.cuda_gib, f"{ACCELERATOR_TYPE}{self.gpu}": 1}

    @property
    def resources(self) -> dict[str, int]:
        """All that its node advertises."""
        own = {} if self.gpu is None else {"GPU": self.gpus}
        return {"CPU": self.cpus, **own, **self.custom_resources}

    def workers(self, device: DeviceClass) -> int:
        """Workers of a device class that its node has, while no others are wanted."""
        node = Node(
            "node", "node", self.cpus, self.gpus, gpus=self.gpus, accelerator=self.gpu, cuda_memory=self.cuda_gib
        )
        return len(places(node, [Want(device)], alone=False))


class CloudTypes(BaseModel):
    """The machine types of a cloud, by name, with their prices in `region`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    region: str
    types: dict[str, NodeType]

    def with_gpu(self, model: str) -> tuple[str, NodeType]:
        """The first type with a GPU of `models`, and its name."""
        return next((name, one) for name, one in self.types.items() if one.gpu == model)

    def with_cpus(self, cpus: int) -> tuple[str, NodeType]:
        """The smallest type without GPUs that has so many CPUs, and its name. Raises RequestError if none has."""
        plain = sorted(
            ((name, one) for name, one in self.types.items() if one.gpu is None), key=lambda one: one[1].cpus
        )
        found = next((one for one in plain if one[1].cpus >= cpus), None)
        if found is None:
            raise RequestError(f"--cpus {cpus}: the largest CPU machine here, {plain[-1][0]}, has {plain[-1][1].cpus}")
        return found

    @property
    def models(self) -> list[str]:
        """The GPUs that are to be had."""
        return list(dict.fromkeys(one.gpu for one in self.types.values() if one.gpu is not None))


@cache
def node_types() -> Mapping[str, CloudTypes]:
    """The table, by cloud."""
    from ruamel.yaml import YAML

    tree = YAML(typ="safe", pure=True).load(TABLE.read_text(encoding="utf-8"))
    return TypeAdapter(dict[str, CloudTypes]).validate_python(tree)


@dataclass(frozen=True)
class Rates:
    """What a worker costs an hour, by device class, and what these numbers rest on."""

    prices: Mapping[str, float]
    basis: str


def rates_on(place: str) -> Rates:
    """Rates of workers on `CLOUD:TYPE`, or, of spot machines, `CLOUD:TYPE:spot`.

    A node's price is shared by its workers of a class, as if it had no others. Raises RequestError for a type that the
    table does not have, or has no such price of.
    """
    cloud, _, rest = place.partition(":")
    name, _, market = rest.partition(":")
    if cloud not in CLOUDS or not name or market not in ("", "spot"):
        raise RequestError(f"--on {place}: expected CLOUD:TYPE or CLOUD:TYPE:spot, such as aws:g4dn.xlarge")
    types = node_types()[cloud]
    if name not in types.types:
        raise RequestError(f"--on {place}: no price is known; known are {', '.join(types.types)}. --price takes yours")
    found = types.types[name]
    price = found.spot if market else found.on_demand
    if price is None and found.spot_only:
        raise RequestError(f"--on {place}: it is to be had as a spot machine only: --on {cloud}:{name}:spot")
    if price is None:
        device = "cpu" if found.gpu is None else "cuda"
        raise RequestError(f"--on {place}: no spot price is known of it; give yours: --price {device}=PRICE")
    counts: dict[DeviceClass, int] = {one: found.workers(one) for one in ("cpu", "cuda")}
    kind = "spot price" if market else "list price"
    basis = f"{kind} {price:g} USD an hour, {types.region}, {found.source}; check yours"
    return Rates({device: price / count for device, count in counts.items() if count}, basis)
