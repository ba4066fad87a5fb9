"""The nodes that batches can be placed on, what trials want of them, and what is said where no node has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.devices.device import DeviceClass
from orchestrator.errors import ExecutorError, RequestError
from workers.devices import ACCELERATOR_TYPE, CUDA_MEMORY, Offer
from workers.gcs import DEATHS, Cluster, ClusterError, ClusterRequestError

NODES_NAMED = 8

RAY_WORDS = ("auto", "local")
"""What RAY_ADDRESS may be that is no address."""


@dataclass(frozen=True)
class Want:
    """Workers that trials need: of a device class, and with a model of GPU (None: any)."""

    device: DeviceClass
    accelerator: str | None = None

    def met_by(self, workers: Iterable[Want]) -> bool:
        """Whether one of `workers`, each given as the class and model that it is, will do."""
        return any(
            worker.device == self.device
            and (self.device == "cpu" or self.accelerator is None or same_model(self.accelerator, worker.accelerator))
            for worker in workers
        )

    def __str__(self) -> str:
        return self.device if self.accelerator is None else f"{self.device} on {self.accelerator}"


def same_model(one: str, other: str | None) -> bool:
    """Whether two names of GPUs mean one model: H100 and h100."""
    return one.lower() == (other or "").lower()


Demand = frozenset[Want]
"""Wants of which one is enough: a trial for `any` device can do with each class that its mechanism runs on."""


@dataclass(frozen=True)
class Node:
    """A machine of the fleet.

    cpus         cores to run on
    cuda, mps    devices, as the node's own resources count them
    gpus         GPUs as Ray counts them, NVIDIA's and Apple's alike
    accelerator  model of its GPU
    cuda_memory  GiB of its CUDA devices together; None where it does not say
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

    def meets(self, want: Want) -> bool:
        """Whether a worker for `want` can run here."""
        return self.usable and self.count(want.device) > 0 and want.met_by([Want(want.device, self.accelerator)])

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


def nodes_of(records: Iterable[Mapping[str, Any]], draining: Iterable[str] = ()) -> list[Node]:
    """Nodes from Ray's records of them (as `ray.nodes` gives them); `draining` are ids of those told to leave."""
    leaving = set(draining)
    return [_node(record, record["NodeID"] in leaving) for record in records]


def _node(record: Mapping[str, Any], leaving: bool) -> Node:
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
        leaving=leaving,
        gone=None if record["Alive"] else DEATHS.get(record.get("DeathReason", 0), "lost"),
    )


def is_read_directly(address: str) -> bool:
    """Whether a RAY_ADDRESS is meant as a head's HOST:PORT, not a client's URL or a word that only Ray understands."""
    return "://" not in address and address not in RAY_WORDS


def cluster_nodes(address: str) -> list[Node]:
    """The nodes of the cluster whose head is at `address`, without joining it.

    Raises ExecutorError if it cannot be read, RequestError if `address` is none (RAY_ADDRESS names it).
    """
    try:
        cluster = Cluster(address)
    except ClusterRequestError as error:
        raise RequestError(f"RAY_ADDRESS: {error}") from error
    except ClusterError as error:
        raise ExecutorError(str(error)) from error
    try:
        return nodes_of(cluster.nodes(), cluster.draining())
    finally:
        cluster.close()


def local_node(offer: Offer) -> Node:
    """The fleet of one machine."""
    return Node("local", "this machine", offer.cpus, offer.cuda, offer.mps, 0, offer.accelerator, offer.cuda_memory)


def unmet(demands: Iterable[Demand], nodes: Sequence[Node], *, unusable: str | None = None) -> str | None:
    """Why some of `demands` cannot be placed on `nodes`, what there is, and the nearest offer; None if all can.

    unusable: why a GPU of this machine is no device, if there is one
    """
    missing = [demand for demand in demands if not any(node.meets(want) for node in nodes for want in demand)]
    if not missing:
        return None
    wants = sorted({want for demand in missing for want in demand}, key=str)
    here = [node for node in nodes if node.gone is None]
    found = _what_there_is(here) + (f" (its GPU cannot be used: {unusable})" if unusable is not None else "")
    nearest = "; ".join(dict.fromkeys(_nearest(want, here) for want in wants))
    return f"no worker offers {' or '.join(map(str, wants))}; {found}; {nearest}"


def _what_there_is(nodes: Sequence[Node]) -> str:
    if not nodes:
        return "the cluster has no node"
    named = "; ".join(map(str, nodes[:NODES_NAMED]))
    more = f"; and {len(nodes) - NODES_NAMED} more" if len(nodes) > NODES_NAMED else ""
    return f"there {'is' if len(nodes) == 1 else 'are'} {named}{more}"


def _nearest(want: Want, nodes: Sequence[Node]) -> str:
    """What to ask for instead: the same class with another GPU, else another accelerator, else the CPU."""
    usable = [node for node in nodes if node.usable]
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
