"""Asking an autoscaler for nodes: as placement groups that wait, which are gone with whoever asked.

(`ray.autoscaler.sdk.request_resources` would keep nodes, and cost money, after its process was killed.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orchestrator.fleet import Node, Want
from workers.devices import ACCELERATOR_TYPE, CPU_NODE

if TYPE_CHECKING:
    from ray.util.placement_group import PlacementGroup

A_BIT = 0.001
"""Of a resource that says what a node is, so that many may ask for it."""


class GpuNode(Node):
    """A machine that is paid for its GPUs: nothing is placed on its CPUs, which would keep it from ending."""

    def meets(self, want: Want) -> bool:
        return want.device != "cpu" and super().meets(want)


def bundle(want: Want) -> dict[str, float]:
    """What a node must have for a worker that is wanted; empty for what no cloud offers on request."""
    if want.machine is not None:
        return {}
    if want.device == "cpu":
        return {"CPU": 1.0, CPU_NODE: A_BIT}  # Ray starts the dearest GPUs for CPUs alone once nothing else is left
    if want.device != "cuda":
        return {}
    model = {} if want.accelerator is None else {f"{ACCELERATOR_TYPE}{_as_ray_writes(want.accelerator)}": A_BIT}
    return {"GPU": 1.0, "cuda": 1.0, **model}


def _as_ray_writes(model: str) -> str:
    return model.strip().upper().replace(" ", "-")


def requests(waiting: int, workers: int, devices: float) -> int:
    """Bundles to ask for: one where there is nothing, then as many again as there are `devices`, if so many are needed.

    waiting: batches beside those that `workers`, which share the devices, hold; they hold as many as they may
    """
    return math.ceil(devices * min(1.0, waiting / workers)) if workers else 1


class NodeRequests:
    """Asks for nodes, once until they have come."""

    def __init__(self) -> None:
        self._asked: dict[Want, list[PlacementGroup]] = {}

    def update(self, needed: Mapping[Want, int]) -> None:
        """Ask for so many more nodes, or shares of one, and for no more of what is not `needed`.

        Where something has come, nothing more is asked for at once: it would be found where workers are to be started.
        """
        from ray.util import placement_group

        for want, groups in self._asked.items():
            if want not in needed:
                self._withdraw(groups)
        for want, count in needed.items():
            groups = self._asked.setdefault(want, [])
            come = [group for group in groups if group.wait(0)]
            if not groups:
                groups += [placement_group([bundle(want)], strategy="PACK") for _ in range(count)]
            groups[:] = [group for group in groups if group not in come]
            self._withdraw(come)

    def withdraw(self) -> None:
        """Ask for nothing more, until something is needed again."""
        for groups in self._asked.values():
            self._withdraw(groups)
        self._asked.clear()

    def forget(self) -> None:
        """What was asked went with its Ray."""
        self._asked.clear()

    def _withdraw(self, groups: list[Any]) -> None:
        from ray.util import remove_placement_group

        for group in groups:
            remove_placement_group(group)
        groups.clear()
