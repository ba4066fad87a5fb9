"""Sweeps: submitting, listing and steering them."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from models.devices.device import DeviceClass
from orchestrator.caps import Caps
from orchestrator.service.access import Caller, PlannersOf, StoreOf, Submitter, Viewer
from orchestrator.service.actions import Action, steer
from orchestrator.service.glances import Glances
from orchestrator.service.orders import Order, SubmittedSweeps
from orchestrator.service.routes.asking import GlancesOf, SweepOf
from orchestrator.service.routes.taking import OptionsOf, SettingsOf, readable_folders, unless_gone
from orchestrator.service.uploads import SpecUpload, spec_orders
from orchestrator.store.states import SweepState
from orchestrator.store.status import SweepStatus
from orchestrator.store.store import Store

router = APIRouter(prefix="/sweeps", tags=["sweeps"])

MOST_LISTED = 500


class SweepRequest(BaseModel):
    """Specs to submit, all of them or none."""

    model_config = ConfigDict(extra="forbid")

    specs: list[SpecUpload] = Field(min_length=1)
    use_cache: bool = Field(True, description="link results that are there already rather than compute them again")
    wait: float = Field(
        0.0, ge=0, le=1e6, description="minutes to wait for workers that a sweep needs and nobody offers yet"
    )
    max_hours: float | None = Field(
        None, gt=0, le=1e9, description="hours of all workers together after which each sweep is paused"
    )
    max_cost: float | None = Field(None, gt=0, le=1e12, description="what workers may cost until each sweep is paused")
    prices: dict[DeviceClass, Annotated[float, Field(gt=0, le=1e9)]] = Field(
        default_factory=dict, description="what a worker of a device class costs an hour; max_cost needs one at least"
    )
    check_data: bool = Field(True, description="refuse a spec whose data cannot be had here; of several, leave it out")


class SweepPage(BaseModel):
    """Some of the sweeps, newest first."""

    sweeps: list[SweepStatus]
    total: int = Field(description="how many there are on all pages")


class Steered(BaseModel):
    """A sweep after it was steered."""

    sweep: SweepStatus
    trials: int = Field(0, description="how many of its trials wait again")


RequestKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        description="what tells this request from others of its user: sent again, it submits nothing, and is told what "
        "was submitted",
    ),
]


@router.post("", status_code=201)
async def submit_sweeps(
    request: Request,
    caller: Submitter,
    settings: SettingsOf,
    options: OptionsOf,
    planners: PlannersOf,
    glances: GlancesOf,
    asked: SweepRequest,
    key: RequestKey = None,
) -> SubmittedSweeps:
    """Queue a sweep for each spec. The service runs them; `GET /sweeps/{sweep}` tells how far they are.

    Whoever closes the connection before the answer withdraws the request, unless it is just being stored.
    """
    order = Order(
        task="submit",
        specs=await run_in_threadpool(spec_orders, asked.specs, caller, settings, options),
        folders=readable_folders(options),
        most_trials=options.most_trials,
        key=_key(caller, key, asked),
        user=caller.user,
        use_cache=asked.use_cache,
        wait=asked.wait,
        caps=Caps(asked.max_hours, asked.max_cost, {str(device): price for device, price in asked.prices.items()}),
        check_data=asked.check_data,
    )
    given = await unless_gone(request, planners.carry_out(order, caller.user))
    glances.forget()
    return SubmittedSweeps.model_validate(given)


def _key(caller: Caller, given: str | None, asked: SweepRequest) -> str:
    """What is the same of a request that is sent again, and of no other."""
    parts = (caller.user, uuid.uuid4().hex if given is None else given, asked.model_dump_json())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@router.get("")
def list_sweeps(
    _: Viewer,
    store: StoreOf,
    glances: GlancesOf,
    state: Annotated[list[SweepState] | None, Query(description="only sweeps in one of these states")] = None,
    user: Annotated[str | None, Query(max_length=100, description="only sweeps of this user")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> SweepPage:
    """Sweeps of all users, newest first."""
    states = None if state is None else tuple(dict.fromkeys(state))

    def ask() -> SweepPage:
        rows = store.statuses(states, user, limit=limit, offset=offset)
        return SweepPage(sweeps=[public(row) for row in rows], total=store.count_sweeps(states, user))

    return glances.get(("sweeps", states, user, limit, offset), ask)


@router.get("/{sweep}")
async def show_sweep(_: Viewer, sweep: SweepOf) -> SweepStatus:
    """How far a sweep is, at most a few seconds ago. Times are seconds since the epoch."""
    return public(sweep)


@router.post("/{sweep}/pause")
def pause_sweep(caller: Submitter, store: StoreOf, glances: GlancesOf, sweep: SweepOf) -> Steered:
    """Hand out no more of its trials; what runs is finished."""
    return _steered(caller, store, glances, sweep, Action.PAUSE)


@router.post("/{sweep}/resume")
def resume_sweep(caller: Submitter, store: StoreOf, glances: GlancesOf, sweep: SweepOf) -> Steered:
    """Queue what is missing of it. That it is queued or running already is no error."""
    return _steered(caller, store, glances, sweep, Action.RESUME)


@router.post("/{sweep}/cancel")
def cancel_sweep(caller: Submitter, store: StoreOf, glances: GlancesOf, sweep: SweepOf) -> Steered:
    """End it: its waiting trials are cancelled, results stay. `resume` takes it up again."""
    return _steered(caller, store, glances, sweep, Action.CANCEL)


@router.post("/{sweep}/retry")
def retry_failed(caller: Submitter, store: StoreOf, glances: GlancesOf, sweep: SweepOf) -> Steered:
    """Queue its failed and cancelled trials again; what failed before stays in their history."""
    return _steered(caller, store, glances, sweep, Action.RETRY)


def public(sweep: SweepStatus) -> SweepStatus:
    """A sweep as everybody may see it: `report` is the address of a page, not a place on this machine."""
    return replace(sweep, report=None if sweep.report is None else f"/sweeps/{sweep.id}/report/")


def _steered(caller: Caller, store: Store, glances: Glances, sweep: SweepStatus, action: Action) -> Steered:
    changed = steer(store, caller, sweep.id, action)
    glances.forget()
    return Steered(sweep=public(changed.sweep), trials=changed.trials)
