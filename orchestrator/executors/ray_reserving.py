"""Whole nodes of a Ray cluster for whoever measures times: nobody else's workers are placed on one that is held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orchestrator.fleet import Node

if TYPE_CHECKING:
    from ray.util.placement_group import PlacementGroup

PLACING_SECONDS = 5.0
"""How long a node that looked free may take to be held: somebody else may have been quicker."""

NODE_LABEL = "ray.io/node-id"


class Reservations:
    """Nodes that are held whole: all their cores and devices, in one placement group each."""

    def __init__(self) -> None:
        self._groups: dict[str, PlacementGroup] = {}

    def hold(self, node: Node, free: Mapping[str, float]) -> bool:
        """Whether `node` is held, now or already; it is not while anything of it is taken (`free`: what is left)."""
        if node.id in self._groups:
            return True
        whole = node.whole
        if any(free.get(name, 0.0) < amount - 1e-6 for name, amount in whole.items()):
            return False
        from ray.util import placement_group, remove_placement_group

        group = placement_group([whole], strategy="STRICT_PACK", bundle_label_selector=[{NODE_LABEL: node.id}])
        if not group.wait(PLACING_SECONDS):
            remove_placement_group(group)
            return False
        self._groups[node.id] = group
        return True

    def held(self, node: str) -> bool:
        """Whether a node (an id) is held."""
        return node in self._groups

    def strategy(self, node: str) -> Any:
        """Where to schedule a worker that is to run on a node (an id) that is held."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        return PlacementGroupSchedulingStrategy(self._groups[node], placement_group_bundle_index=0)

    def release(self, node: str) -> None:
        """Give a node (an id) back, if it is held."""
        from ray.util import remove_placement_group

        if (group := self._groups.pop(node, None)) is not None:
            remove_placement_group(group)

    def forget(self) -> None:
        """What was held went with its Ray."""
        self._groups.clear()
