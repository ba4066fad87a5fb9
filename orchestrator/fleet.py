"""The nodes that batches can be placed on, what trials want of them, and what is said where no node has it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from models.devices.device import DeviceClass
from orchestrator.errors import ExecutorError, RequestError
from workers.devices import ACCELERATOR_TYPE, CUDA_MEMORY, Offer
from workers.gcs import (
    DEATHS,
    Cluster,
    ClusterError,
    ClusterRequestError,
    ClusterTokenError,
    check_token,
    reach,
    split_address,
)

if TYPE_CHECKING:
    from workers.host import WorkerCard

NODES_NAMED = 8

MAKERS = {"nvidia", "geforce", "quadro", "tesla", "apple", "gpu"}
"""Words in a GPU's name that its model does without."""

MACHINE_DIGITS = 8
"""As many of a machine's digits tell it from others."""


@dataclass(frozen=True)
class Want:
    """Workers that trials need: of a device class, with a model of GPU, on a kind of machine (None: any).

    machine: a `workers.hardware.machine_id`; where times are measured, each belongs to one
    """

    device: DeviceClass
    accelerator: str | None = None
    machine: str | None = None

    @classmethod
    def of(cls, card: WorkerCard) -> Want:
        """The class, model and machine that a worker is."""
        return cls(card.device, card.accelerator, card.machine)

    def met_by(self, workers: Iterable[Want]) -> bool:
        """Whether one of `workers`, each given as the class, model and machine that it is, will do."""
        return any(
            worker.device == self.device
            and (self.device == "cpu" or self.accelerator is None or same_model(self.accelerator, worker.accelerator))
            and self.machine in (None, worker.machine)
            for worker in workers
        )

    def __str__(self) -> str:
        model = "" if self.accelerator is None else f" on {self.accelerator}"
        machine = "" if self.machine is None else f" of machine {self.machine[:MACHINE_DIGITS]}"
        return f"{self.device}{model}{machine}"


def same_model(one: str, other: str | None) -> bool:
    """Whether two names of GPUs mean one model: H100 and h100, RTX 4090 and what Ray calls GeForce-RTX-4090."""
    return other is not None and _model_words(one) == _model_words(other)


def _model_words(name: str) -> str:
    return "".join(word for word in re.split(r"[\s_-]+", name.lower()) if word not in MAKERS)


Demand = frozenset[Want]
"""Wants of which one is enough: a trial for `any` device can do with each class that its mechanism runs on."""


def cheapest(demand: Demand) -> Demand:
    """What of `demand` to do with where machines are paid for by the hour: CPUs, if these are among it."""
    return frozenset(want for want in demand if want.device == "cpu") or demand


@dataclass(frozen=True)
class Node:
    """A machine of the fleet.

    cpus         cores to run on
    cuda, mps    devices, as the node's own resources count them
    gpus         GPUs as Ray counts them, NVIDIA's and Apple's alike
    accelerator  model of its GPU
    cuda_memory  GiB of its CUDA devices together; None where it does not say
    machines     what kind of machine it is to workers of a class (`workers.hardware.machine_id`), as far as is known
    leaving      told to go: nothing new is placed there
    gone         why it is no longer there; None while it is
    """

    id: str
    name: str
    cpus: int
    cuda: int = 0
    mps: int = 0
    gpus: int = 0
    accelerator: str | None = None
    cuda_memory: int | None = None
    machines: Mapping[str, str] = field(default_factory=dict)
    leaving: bool = False
    gone: str | None = None

    @property
    def usable(self) -> bool:
        """Whether workers can be started there."""
        return not self.leaving and self.gone is None

    @property
    def state(self) -> str:
        """`here`, `leaving`, or why it is gone."""
        return self.gone or ("leaving" if self.leaving else "here")

    def count(self, device: DeviceClass) -> int:
        """Devices of a class; of the CPU, cores."""
        return {"cpu": self.cpus, "cuda": self.cuda, "mps": self.mps}[device]

    @property
    def whole(self) -> dict[str, float]:
        """Everything that it offers, as Ray's resources."""
        counts = {"CPU": self.cpus, "GPU": self.gpus, "cuda": self.cuda, "mps": self.mps}
        counts[CUDA_MEMORY] = self.cuda_memory or 0
        return {name: float(count) for name, count in counts.items() if count}

    def meets(self, want: Want) -> bool:
        """Whether a worker for `want` can run here; of a machine that is not known, whether it may."""
        here = Want(want.device, self.accelerator, self.machines.get(want.device, want.machine))
        return self.usable and self.count(want.device) > 0 and want.met_by([here])

    def __str__(self) -> str:
        parts = [f"{self.cpus} cores"]
        parts += [f"{device} x {self.count(device)}" for device in ("cuda", "mps") if self.count(device)]
        if self.accelerator:
            parts[-1] += f" ({self.accelerator})"
        if self.gpus and not self.cuda and not self.mps:
            parts.append(f"GPU x {self.gpus}, which its node does not offer as `cuda`")
        if self.leaving:
            parts.append("leaving")
        return f"{self.name}: {', '.join(parts)}"


def nodes_of(
    records: Iterable[Mapping[str, Any]],
    draining: Iterable[str] = (),
    machines: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Node]:
    """Nodes from Ray's records of them (as `ray.nodes` gives them).

    draining: ids of those told to leave; machines: what is known of their kinds, by id and device class
    """
    leaving, told = set(draining), machines or {}
    return [_node(record, record["NodeID"] in leaving, told.get(record["NodeID"], {})) for record in records]


def _node(record: Mapping[str, Any], leaving: bool, machines: Mapping[str, str]) -> Node:
    resources: Mapping[str, float] = record["Resources"]
    models = [name.removeprefix(ACCELERATOR_TYPE) for name in resources if name.startswith(ACCELERATOR_TYPE)]
    return Node(
        id=record["NodeID"],
        name=record.get("NodeManagerHostname") or record["NodeManagerAddress"],
        cpus=int(resources.get("CPU", 0)),
        cuda=int(resources.get("cuda", 0)),
        mps=int(resources.get("mps", 0)),
        gpus=int(resources.get("GPU", 0)),
        accelerator=models[0] if models else None,
        cuda_memory=int(resources[CUDA_MEMORY]) if CUDA_MEMORY in resources else None,
        machines=machines,
        leaving=leaving,
        gone=None if record["Alive"] else DEATHS.get(record.get("DeathReason", 0), "lost"),
    )


CLIENT_SCHEME = "ray://"


def is_read_directly(address: str) -> bool:
    """Whether the cluster's records can be read at a RAY_ADDRESS (HOST:PORT, or `auto`): not at a client's URL."""
    return "://" not in address


def cluster_nodes(address: str) -> list[Node]:
    """The nodes of the cluster whose head is at `address`, without joining it.

    Raises ExecutorError if it cannot be read, RequestError if `address` is none (RAY_ADDRESS names it).
    """
    with open_cluster(address) as cluster:
        return nodes_of(cluster.nodes(), cluster.draining(), cluster.machines())


@contextmanager
def open_cluster(address: str) -> Iterator[Cluster]:
    """The records of the cluster whose head is at `address`; raises as `cluster_nodes`."""
    with _errors_for_users():
        cluster = Cluster(address)
    try:
        yield cluster
    finally:
        cluster.close()


def check_cluster(address: str) -> None:
    """Raise, within seconds, if no cluster answers at `address`; as `cluster_nodes`. Ray itself may wait for minutes.

    Of a client's URL only what listens there can be told.
    """
    if is_read_directly(address):
        with open_cluster(address):
            return
    with _errors_for_users():
        place = split_address(address.removeprefix(CLIENT_SCHEME))
        check_token()
        reach(*place)


def check_local() -> None:
    """Raise RequestError if a Ray that is started on this machine would not find the token that it is told to use."""
    with _errors_for_users():
        check_token(local=True)


@contextmanager
def _errors_for_users() -> Iterator[None]:
    try:
        yield
    except ClusterTokenError as error:
        raise RequestError(str(error)) from error
    except ClusterRequestError as error:
        raise RequestError(f"RAY_ADDRESS: {error}") from error
    except ClusterError as error:
        raise ExecutorError(f"RAY_ADDRESS: {error}") from error


def local_node(offer: Offer, machines: Mapping[str, str] | None = None) -> Node:
    """The fleet of one machine."""
    counts = (offer.cpus, offer.cuda, offer.mps, 0)
    return Node("local", "this machine", *counts, offer.accelerator, offer.cuda_memory, machines or {})


def unmet(demands: Iterable[Demand], nodes: Sequence[Node], *, unusable: str | None = None) -> str | None:
    """Why some of `demands` cannot be placed on `nodes`, what there is, and the nearest offer; None if all can.

    unusable: why a GPU of this machine is no device, if there is one
    """
    missing = [demand for demand in demands if not any(node.meets(want) for node in nodes for want in demand)]
    if not missing:
        return None
    wants = sorted({want for demand in missing for want in demand}, key=str)
    here = [node for node in nodes if node.gone is None]
    found = _what_there_is(here, {want.device for want in wants if want.machine is not None})
    found += f" (its GPU cannot be used: {unusable})" if unusable is not None else ""
    nearest = "; ".join(dict.fromkeys(_nearest(want, here) for want in wants))
    return f"no worker offers {' or '.join(map(str, wants))}; {found}; {nearest}"


def _what_there_is(nodes: Sequence[Node], timed: AbstractSet[DeviceClass]) -> str:
    """`timed`: device classes whose machines are told."""
    if not nodes:
        return "the cluster has no node"
    named = "; ".join(f"{node}{_machines(node, timed)}" for node in nodes[:NODES_NAMED])
    more = f"; and {len(nodes) - NODES_NAMED} more" if len(nodes) > NODES_NAMED else ""
    return f"there {'is' if len(nodes) == 1 else 'are'} {named}{more}"


def _machines(node: Node, timed: AbstractSet[DeviceClass]) -> str:
    """The kinds of machine that a node is to workers of the classes `timed`."""
    kinds = dict.fromkeys(node.machines[device][:MACHINE_DIGITS] for device in sorted(timed & node.machines.keys()))
    return f", machine {', '.join(kinds)}" if kinds else ""


def _nearest(want: Want, nodes: Sequence[Node]) -> str:
    """What to ask for instead: the same class with another GPU, else another accelerator, else the CPU."""
    usable = [node for node in nodes if node.usable]
    if want.machine is not None and any(node.meets(replace(want, machine=None)) for node in usable):
        return "its times are of one kind of machine: submit the spec again to measure on one that is there"
    models = sorted({node.accelerator for node in usable if node.count(want.device) and node.accelerator})
    if want.accelerator is not None and models:
        return f"nearest offer: `accelerator: {models[0]}`, or leave `accelerator` out"
    if hidden := next((node for node in usable if node.gpus and not node.cuda and not node.mps), None):
        return (
            f"nearest offer: the GPU of {hidden.name}, once that node is started with `slotsweep worker --join` "
            "(or with --resources='{\"cuda\": 1}')"
        )
    other = next((device for device in ("cuda", "mps", "cpu") if any(node.count(device) for node in usable)), None)
    return "join a machine with `slotsweep worker --join`" if other is None else f"nearest offer: `device: {other}`"
