"""The page of the fleet: nodes of the cluster, and workers with what they hold."""

from __future__ import annotations

from dataclasses import dataclass

from dashboards.pages.frame import Live, Visitor, page, part
from dashboards.text import duration


@dataclass(frozen=True)
class NodeLine:
    """A machine of the cluster."""

    name: str
    cpus: int
    cuda: int
    mps: int
    accelerator: str
    state: str


@dataclass(frozen=True)
class WorkerLine:
    """A worker. trials: it holds now; done: results that are its; silent: seconds since it was last heard of."""

    id: str
    device: str
    machine: str
    state: str
    trials: int
    done: int
    agreement: str
    silent: float

    @property
    def seen(self) -> str:
        """When it was last heard of."""
        return f"{duration(max(0.0, self.silent))} ago"

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.state in ("ready", "stopped")


@dataclass(frozen=True)
class FleetView:
    """The fleet. unlisted: why the cluster's nodes are not told; every: whether those that are gone are told too."""

    nodes: tuple[NodeLine, ...]
    unlisted: str | None
    workers: tuple[WorkerLine, ...]
    every: bool
    live: Live


def workers_page(view: FleetView, visitor: Visitor) -> str:
    """The page of `view`."""
    return page("workers.html.j2", visitor, "workers", view=view)


def workers_part(view: FleetView) -> str:
    """Its tables alone."""
    return part("workers_part.html.j2", view=view)
