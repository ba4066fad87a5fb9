"""Which workers a node gets: pure arithmetic on its cores and devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from models.devices.device import DeviceClass
from orchestrator.fleet import Node, Want
from workers.devices import CUDA_MEMORY

CUDA_WORKER_GIB = 24
MOST_CUDA_WORKERS = 4
"""Workers share a GPU, so that one makes streams while another computes: one for each 24 GiB of it, and 4 at most."""


@dataclass(frozen=True)
class Place:
    """Room for one worker.

    cpus     cores it takes, where there are any to be had
    devices  CUDA devices it takes, or a share of one; of Macs, the one there is
    number   tells places of a node and class apart
    """

    node: str
    device: DeviceClass
    cpus: int = field(compare=False)
    devices: float = 0.0
    accelerator: str | None = None
    number: int = 0

    def resources(self, node: Node) -> dict[str, float]:
        """Custom resources that the worker takes."""
        if self.device == "cpu":
            return {}
        taken: dict[str, float] = {self.device: self.devices}
        if self.device == "cuda" and node.cuda_memory:
            taken[CUDA_MEMORY] = round(node.cuda_memory * self.devices / node.cuda, 4)
        return taken


def places(node: Node, wants: Iterable[Want], *, alone: bool) -> list[Place]:
    """Workers for `node`: one for each GPU or share of it, one for a Mac's, and one for each core that is left.

    A worker of an accelerator takes a core, as long as there are any. With `alone` there is one worker a class, which
    takes everything: what it measures is disturbed by nothing but workers of other classes, which wait for one another.
    """
    classes = dict.fromkeys(want.device for want in wants if node.meets(want))
    found: list[Place] = []
    if "mps" in classes:
        found.append(Place(node.id, "mps", 0 if alone else min(1, node.cpus), 1.0, node.accelerator))
    if "cuda" in classes:
        found += _cuda_places(node, node.cpus - sum(place.cpus for place in found), alone=alone)
    left = node.cpus - sum(place.cpus for place in found)
    if "cpu" in classes and left > 0:
        found += (
            [Place(node.id, "cpu", left)] if alone else [Place(node.id, "cpu", 1, number=core) for core in range(left)]
        )
    return found


class Openings:
    """How many workers may still be started, by what waits for them; `wanted` has a number for each."""

    def __init__(self, wanted: Mapping[Want, float]) -> None:
        self._left = dict(wanted)

    def allow(self, place: Place, node: Node) -> bool:
        """Whether a worker at `place`, of `node`, is wanted."""
        return any(self._for(place, node))

    def take(self, place: Place, node: Node) -> None:
        """One is started there."""
        for want in [*self._for(place, node)]:
            self._left[want] -= 1

    def _for(self, place: Place, node: Node) -> Iterable[Want]:
        wanted = (want for want, left in self._left.items() if left > 0 and want.device == place.device)
        return (want for want in wanted if node.meets(want))


def _cuda_places(node: Node, cores: int, *, alone: bool) -> list[Place]:
    if alone:
        return [Place(node.id, "cuda", 0, float(node.cuda), node.accelerator)]
    each = (node.cuda_memory or 0) // node.cuda // CUDA_WORKER_GIB
    share = max(1, min(each, MOST_CUDA_WORKERS, max(1, cores) // node.cuda))
    return [
        Place(node.id, "cuda", 1 if number < cores else 0, round(1 / share, 4), node.accelerator, number)
        for number in range(node.cuda * share)
    ]
