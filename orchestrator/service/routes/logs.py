"""A sweep's log, read on from wherever one was."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from orchestrator.log_pages import last_lines, page_after
from orchestrator.logs import elsewhere, log_file
from orchestrator.service.access import StoreOf, Viewer
from orchestrator.service.routes.asking import SweepOf
from orchestrator.service.routes.taking import SettingsOf

router = APIRouter(prefix="/sweeps/{sweep}", tags=["results"])

NDJSON = "application/x-ndjson"
POSITION = "Slotsweep-Log-Position"
ELSEWHERE = "Slotsweep-Log-Elsewhere"
PAGE_BYTES = 2**20
MOST_TAILED = 10_000

After = Annotated[
    str,
    Query(
        pattern="^([0-9a-f]{16}:[0-9]{1,18})?$",
        description=f"go on after what had this {POSITION}; empty: at the oldest",
    ),
]
Tail = Annotated[int | None, Query(ge=1, le=MOST_TAILED, description="only the last entries, that many at most")]


@router.get(
    "/log",
    response_class=Response,
    responses={
        200: {
            "description": "entries, a JSON object a line; none if there are no more so far",
            "content": {NDJSON: {"schema": {"type": "string"}}},
            "headers": {
                POSITION: {"description": "where the next page begins", "schema": {"type": "string"}},
                ELSEWHERE: {"description": "other hosts that ran the sweep", "schema": {"type": "string"}},
            },
        }
    },
)
def log(
    _: Viewer, store: StoreOf, settings: SettingsOf, sweep: SweepOf, after: After = "", tail: Tail = None
) -> Response:
    """Entries of the log, a page of about a megabyte. Ask again with the position that came with it for the next.

    A log lies on the machines that ran its sweep: what other hosts than the one that answers have of it is not here.
    """
    path = log_file(settings, sweep.id)
    page = page_after(path, after, PAGE_BYTES) if tail is None else last_lines(path, tail)
    headers = {POSITION: page.position, ELSEWHERE: ", ".join(elsewhere(store, sweep.id))}
    return Response(b"".join(page.lines), media_type=NDJSON, headers=headers)
