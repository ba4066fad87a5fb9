"""The fleet as `slotsweep workers` lists it: nodes as the cluster knows them, workers as the store does."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.fleet import Node, check_cluster, cluster_nodes, is_read_directly
from orchestrator.scheduler import LEASE_SECONDS
from orchestrator.settings import Settings
from orchestrator.store.records import WorkerRow

ENDED_IN_ORDER = ("stopped", "lost")
"""States of workers that are gone, with nothing wrong about their machine."""


@dataclass(frozen=True)
class Listed:
    """A worker.

    machine    its GPU, or on a CPU the CPU's model
    state      ready, refused (its device disagrees), quarantined, lost or stopped; `silent` if it is ready and its
               orchestrator has not been heard of for longer than a lease
    batches, trials  it holds now; done: trials whose results are its
    agreement  what its probe found, in words
    last_seen  seconds since the epoch
    """

    id: str
    device: str
    machine: str
    state: str
    batches: int
    trials: int
    done: int
    agreement: str
    started: float
    last_seen: float


@dataclass(frozen=True)
class Roster:
    """The fleet at one moment.

    nodes     empty where no cluster is configured
    unlisted  why the nodes of the cluster that is configured cannot be listed; None: they are
    """

    nodes: list[Node]
    workers: list[Listed]
    now: float
    unlisted: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The contract of `workers --json`."""
        return {
            "nodes": [asdict(node) | {"state": node.state} for node in self.nodes],
            "unlisted": self.unlisted,
            "workers": [asdict(worker) for worker in self.workers],
        }


def read_roster(settings: Settings, *, every: bool) -> Roster:
    """The fleet; `every`: with workers and nodes that are gone.

    Raises ExecutorError if the cluster cannot be read, RequestError if RAY_ADDRESS names none.
    """
    nodes, unlisted = listed_nodes(settings.ray_address)
    return roster_of(_worker_rows(settings), nodes, unlisted, every=every)


def roster_of(rows: Sequence[WorkerRow], nodes: Sequence[Node], unlisted: str | None, *, every: bool) -> Roster:
    """The fleet of which these are the workers and the nodes now; otherwise as `read_roster`."""
    now = time.time()
    workers = [_listed(row, now) for row in rows]
    return Roster(
        [node for node in nodes if every or node.gone is None],
        [one for one in workers if every or one.state not in ENDED_IN_ORDER],
        now,
        unlisted,
    )


def listed_nodes(address: str | None) -> tuple[list[Node], str | None]:
    """The nodes of the cluster at `address`, or why they cannot be listed. Raises ExecutorError and RequestError."""
    if address is None:
        return [], None
    if is_read_directly(address):
        return cluster_nodes(address), None
    check_cluster(address)
    return [], f"nodes cannot be listed through a client's {address}: let RAY_ADDRESS name the head's HOST:PORT"


def _worker_rows(settings: Settings) -> list[WorkerRow]:
    if settings.database_file is not None and not settings.database_file.exists():
        return []
    from orchestrator.store.store import Store

    return Store.open(settings.database_url).workers()


def _listed(row: WorkerRow, now: float) -> Listed:
    silent = row.state == "ready" and now - row.last_seen > LEASE_SECONDS
    machine = row.record.get("cpu_model" if row.device == "cpu" else "gpu")
    return Listed(
        id=row.id,
        device=row.device,
        machine=str(machine or "unknown"),
        state="silent" if silent else row.state,
        batches=row.batches,
        trials=row.trials,
        done=row.done,
        agreement=agreement_in_words(row.agreement),
        started=row.started,
        last_seen=row.last_seen,
    )


def agreement_in_words(agreement: Mapping[str, Any] | None) -> str:
    """Whether a worker's device agrees with the references, and with whose nothing was compared."""
    if agreement is None:
        return "not probed"
    if not agreement["ok"]:
        return f"disagrees: {'; '.join(agreement['disagreements'][:1])}"
    if not agreement["compared"]:
        return "nothing compared"
    not_compared = agreement.get("not_compared")  # earlier versions did not record it
    return f"agrees; not compared: {', '.join(not_compared)}" if not_compared else "agrees"
