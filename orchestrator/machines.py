"""Which kind of machine times will be measured on: on a cluster, that of the nodes which offer the device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from models.devices.device import DEVICE_CLASSES, DeviceClass
from orchestrator.errors import ExecutorError, RequestError
from orchestrator.fleet import Node, Want, cluster_nodes, is_read_directly, unmet
from orchestrator.plan import Plan
from orchestrator.settings import Settings

if TYPE_CHECKING:
    from orchestrator.spec import Spec


def planned(spec: Spec, settings: Settings, *, ask: bool = True) -> Plan:
    """The plan of `spec` as it would run under `settings`.

    With a cluster, the machine of a timed trial's key is that of the nodes which offer its device class (and the spec's
    accelerator, if it names one): where these are of several kinds, the kind of which there are most. The cluster is
    asked when a timed trial is first looked at; that raises RequestError where no node offers the class, ExecutorError
    where the cluster does not tell.

    ask: whether nodes that have not told what machine they are may be asked, which starts processes on them; otherwise
    the machine is None where none has told
    """
    if settings.ray_address is None:
        return Plan(spec)
    return Plan(spec, cache(partial(_on_cluster, settings.ray_address, spec.policy.accelerator, ask)))


def _on_cluster(address: str, accelerator: str | None, ask: bool, device: str) -> str | None:
    if not is_read_directly(address):
        raise RequestError(
            f"times belong to a machine, and {address} does not tell which the cluster has: let RAY_ADDRESS name the "
            "head's HOST:PORT"
        )
    [wanted] = [Want(known, None if known == "cpu" else accelerator) for known in DEVICE_CLASSES if known == device]
    nodes = _offering(wanted, cluster_nodes(address))
    untold = [node.id for node in nodes if wanted.device not in node.machines]
    if not ask and len(untold) == len(nodes):
        return None
    if ask and untold:
        from orchestrator.executors.ray_machines import ask_machines

        ask_machines(address, wanted.device, untold)
        nodes = _offering(wanted, cluster_nodes(address))
    return commonest_machine(nodes, wanted.device)


def _offering(want: Want, nodes: Sequence[Node]) -> list[Node]:
    found = [node for node in nodes if node.meets(want)]
    if not found:
        raise RequestError(
            f"{unmet([frozenset({want})], nodes)}; times belong to a machine, which has to be there when they are "
            "asked for"
        )
    return found


def commonest_machine(nodes: Sequence[Node], device: DeviceClass) -> str:
    """The kind of machine that most of `nodes` are to workers of `device`. Raises ExecutorError if none has told."""
    told = Counter(node.machines[device] for node in nodes if device in node.machines)
    if not told:
        names = ", ".join(node.name for node in nodes)
        raise ExecutorError(f"{names} did not tell what machine measures times on {device}")
    return max(told, key=lambda machine: (told[machine], machine))
