"""The fleet."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from orchestrator.roster import Roster, roster_of
from orchestrator.service.access import Viewer
from orchestrator.service.routes.study_pages import FleetOf

router = APIRouter(tags=["workers"])


@router.get("/workers")
def list_workers(
    _: Viewer,
    fleet: FleetOf,
    every: Annotated[bool, Query(alias="all", description="also those that are gone")] = False,
) -> Roster:
    """Nodes of the cluster, and workers with their device, load, agreement and state. Times: since the epoch."""
    rows, nodes, unlisted = fleet.get()
    return roster_of(rows, nodes, unlisted, every=every)
