"""The first page: all sweeps, newest first."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from dashboards.pages.frame import Live
from dashboards.pages.sweeps import Filters, SweepsView, sweeps_page, sweeps_part
from orchestrator.errors import RequestError
from orchestrator.service.access import PageViewer, StoreOf
from orchestrator.service.shown import OFTEN, SELDOM, line_of, visitor_of
from orchestrator.store.states import ENDED, SweepState
from orchestrator.store.store import Store

router = APIRouter()

PAGE_SIZE = 25

State = Annotated[str, Query(max_length=32)]
Text = Annotated[str, Query(max_length=200)]
Number = Annotated[int, Query(ge=1, le=1_000_000)]


@router.get("/")
def sweeps(
    caller: PageViewer, store: StoreOf, state: State = "", user: Text = "", q: Text = "", page: Number = 1
) -> HTMLResponse:
    """The list, as it is filtered."""
    return HTMLResponse(sweeps_page(_view(store, Filters(state, user.strip(), q.strip()), page), visitor_of(caller)))


@router.get("/parts/sweeps")
def sweeps_again(store: StoreOf, state: State = "", user: Text = "", q: Text = "", page: Number = 1) -> HTMLResponse:
    """Its table, as it is now."""
    return HTMLResponse(sweeps_part(_view(store, Filters(state, user.strip(), q.strip()), page)))


def _view(store: Store, filters: Filters, page: int) -> SweepsView:
    if filters.state and filters.state not in list(SweepState):
        raise RequestError(f"there is no state `{filters.state}`; states: {', '.join(SweepState)}")
    asked = ([SweepState(filters.state)] if filters.state else None, filters.user or None, filters.words)
    total = store.count_sweeps(*asked)
    pages = max(1, -(-total // PAGE_SIZE))
    number = min(page, pages)
    rows = store.statuses(*asked, limit=PAGE_SIZE, offset=(number - 1) * PAGE_SIZE)
    moving = number == 1 or any(row.state not in ENDED for row in rows)
    live = Live(filters.address("/parts/sweeps", number), OFTEN if moving else SELDOM)
    return SweepsView(tuple(map(line_of, rows)), filters, number, pages, total, live)
