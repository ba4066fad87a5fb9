"""Plans: what specs would run, and what that may cost."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from orchestrator.plan_summary import PlanSummary
from orchestrator.service.access import PlannersOf, Viewer
from orchestrator.service.orders import Order
from orchestrator.service.routes.taking import OptionsOf, SettingsOf, readable_folders, unless_gone
from orchestrator.service.uploads import SpecUpload, spec_orders

router = APIRouter(tags=["specs"])


class PlanRequest(BaseModel):
    """Specs whose plans are to be described."""

    model_config = ConfigDict(extra="forbid")

    specs: list[SpecUpload] = Field(min_length=1)
    explained: bool = Field(False, description="also say why trials are computed rather than reused")


@router.post("/plans", response_model=list[PlanSummary])
async def describe_plans(
    request: Request,
    caller: Viewer,
    settings: SettingsOf,
    options: OptionsOf,
    planners: PlannersOf,
    asked: PlanRequest,
) -> object:
    """What each of the specs would run: trials, batches, devices, and what it may cost. Starts nothing."""
    order = Order(
        task="describe",
        specs=spec_orders(asked.specs, caller, settings, options),
        folders=readable_folders(options),
        most_trials=options.most_trials,
        explained=asked.explained,
    )
    return await unless_gone(request, planners.carry_out(order, caller.user))
