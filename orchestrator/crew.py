"""How many workers will compute a plan's trials, by device class: those this machine starts, or those last seen."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from models.devices.device import DEVICE_CLASSES
from orchestrator.executors.placing import places
from orchestrator.fleet import Want, local_node
from orchestrator.plan import Plan
from orchestrator.settings import Settings
from tasks.devices import AskedDevice
from workers.devices import Offer, this_machine_offers

if TYPE_CHECKING:
    from orchestrator.store.glance import Glance


@dataclass(frozen=True)
class Crew:
    """Workers for each device class that a plan asks for, None where nobody can say; `basis` says how it is known."""

    workers: Mapping[AskedDevice, int | None]
    basis: str


def expected_crew(plan: Plan, settings: Settings, store: Glance | None) -> Crew:
    """The workers that `plan` will have: a local Ray's, or, of a cluster, which is not asked, those last seen."""
    return _local(plan) if settings.ray_address is None else _last_seen(plan, settings.ray_address, store)


def _local(plan: Plan) -> Crew:
    cpus = os.cpu_count() or 1
    offer = Offer(cpus) if plan.devices == ("cpu",) else this_machine_offers(cpus)
    classes = {device: DEVICE_CLASSES if device == "any" else (device,) for device in plan.devices}
    wants = {Want(one, plan.spec.policy.accelerator) for several in classes.values() for one in several}
    counts = Counter(place.device for place in places(local_node(offer), wants, alone=plan.kind.measures_time))
    workers = {device: sum(counts[one] for one in several) or None for device, several in classes.items()}
    return Crew(workers, "as this machine starts them")


def _last_seen(plan: Plan, address: str, store: Glance | None) -> Crew:
    seen = {one.device: one for one in (store.crew_seen() if store is not None else ())}
    counts = {
        device: one.machines if plan.kind.measures_time else one.workers  # one a machine, where times are measured
        for device, one in seen.items()
    }
    counts["any"] = sum(counts.values())
    workers = {device: counts.get(device) or None for device in plan.devices}
    if not seen:
        return Crew(workers, f"no worker of the cluster at {address} was ever seen in this store")
    last = time.strftime("%Y-%m-%d %H:%M", time.localtime(max(one.last_seen for one in seen.values())))
    return Crew(workers, f"as last seen, at {last}; the cluster at {address} was not asked")
