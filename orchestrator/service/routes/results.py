"""What a sweep found: a row for each trial, and tables for a terminal."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from orchestrator.results import result_rows, write_csv, write_parquet
from orchestrator.service.access import StoreOf, Viewer
from orchestrator.service.artist import Wanted
from orchestrator.service.routes.asking import ArtistOf, SweepOf, drawn_now, shown_version
from orchestrator.store.chunks import chunks

router = APIRouter(prefix="/sweeps/{sweep}", tags=["results"])

PARQUET = "application/vnd.apache.parquet"

Format = Annotated[Literal["json", "csv", "parquet"], Query(description="a list of objects, CSV, or a Parquet file")]
Width = Annotated[int, Query(ge=40, le=1000, description="columns of the terminal")]


@router.get(
    "/results",
    response_class=Response,
    responses={
        200: {
            "description": "a row for each trial, with the dotted columns of `slotsweep results`",
            "content": {
                "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
                "text/csv": {"schema": {"type": "string"}},
                PARQUET: {"schema": {"type": "string", "format": "binary"}},
            },
        }
    },
)
def results(_: Viewer, store: StoreOf, sweep: SweepOf, format: Format = "json") -> Response:
    """A row for each trial, in plan order."""
    rows = result_rows(store, store.sweep(sweep.id))
    if format == "json":
        return StreamingResponse(_as_json(rows), media_type="application/json")
    if format == "csv":
        return Response(write_csv(list(rows), None), media_type="text/csv; charset=utf-8")
    with tempfile.TemporaryDirectory(prefix="slotsweep-results-") as folder:
        path = Path(folder) / "results.parquet"
        write_parquet(list(rows), path)
        return Response(path.read_bytes(), media_type=PARQUET)


def _as_json(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A list of `rows`, piece by piece."""
    begun = False
    for some in chunks(rows):
        yield "," if begun else "["
        yield ",".join(json.dumps(row, ensure_ascii=False) for row in some)
        begun = True
    yield "]" if begun else "[]"


@router.get("/summary", response_class=PlainTextResponse)
def summary(_: Viewer, artist: ArtistOf, sweep: SweepOf, width: Width = 100) -> PlainTextResponse:
    """What the sweep says so far, as tables for a terminal."""
    return PlainTextResponse(drawn_now(artist, Wanted("summary", (sweep.id, str(width))), shown_version(sweep)))
