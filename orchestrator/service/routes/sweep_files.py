"""What can be taken away from a sweep's pages: its report with the files beside it, and its results."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import FileResponse, RedirectResponse, Response

from orchestrator.drawn_reports import whole_report
from orchestrator.errors import NotThereError
from orchestrator.results import result_rows, write_csv, write_parquet
from orchestrator.service.access import StoreOf
from orchestrator.service.artist import Artist, Wanted
from orchestrator.service.routes.asking import ArtistOf, shown_version
from orchestrator.store.states import ENDED
from orchestrator.store.status import SweepStatus

router = APIRouter(prefix="/sweeps/{identity}")

DRAWING_SECONDS = 60.0
"""How long a report that is not there is waited for."""

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data: blob:; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'; "
    "sandbox allow-scripts allow-same-origin allow-downloads"
)
"""A report brings its style and script in its file, and may do nothing else: it sends no form, opens no window and asks
for nothing but pictures. It keeps this origin, or its links to the files beside it would lead to the login."""

TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".csv": "text/csv; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".tex": "text/plain; charset=utf-8",
    ".yaml": "text/plain; charset=utf-8",
    ".json": "application/json",
}
"""Files of reports that are given out."""


@router.get("/report")
def report_folder(identity: str, store: StoreOf) -> RedirectResponse:
    """The report, under an address from which its links lead to the files beside it."""
    return RedirectResponse(f"/sweeps/{store.status(identity).id}/report/", 303)


@router.get("/report/")
def report(identity: str, store: StoreOf, artist: ArtistOf) -> Response:
    """The report, drawn now if it is not on this machine."""
    return _file(_report_of(artist, store.status(identity)))


@router.get("/report/{name}")
def report_file(identity: str, name: str, store: StoreOf, artist: ArtistOf) -> Response:
    """A file beside the report."""
    folder = _report_of(artist, store.status(identity)).parent
    found = {path.name: path for path in folder.iterdir() if path.is_file() and path.suffix in TYPES}
    if name not in found:
        raise NotThereError(f"the report has no file `{name}`")
    return _file(found[name])


def _report_of(artist: Artist, sweep: SweepStatus) -> Path:
    """The HTML file. Raises NotThereError."""
    whole = whole_report(sweep)
    if whole is not None:
        return whole
    if sweep.state not in ENDED:
        raise NotThereError(
            "a report is drawn when its sweep has ended: until then the sweep's page shows what is there"
        )
    version = shown_version(sweep)
    drawn = artist.draw(Wanted("report", (sweep.id,)), version, DRAWING_SECONDS)
    if drawn is None or drawn.html is None or drawn.version != version:
        told = None if drawn is None else drawn.error
        told = told or "it is being drawn, look again in a moment"
        raise NotThereError(f"the report is not here yet: {told}")
    return Path(drawn.html)


def _file(path: Path) -> FileResponse:
    return FileResponse(path, media_type=TYPES[path.suffix], headers={"Content-Security-Policy": POLICY})


@router.get("/results.{suffix}")
def results(identity: str, suffix: Literal["csv", "json", "parquet"], store: StoreOf) -> Response:
    """A row for each trial, with dotted columns."""
    import json

    status = store.status(identity)
    rows = list(result_rows(store, store.sweep(status.id)))
    named = {"Content-Disposition": f'attachment; filename="{status.id}.{suffix}"'}
    if suffix == "csv":
        return Response(write_csv(rows, None), media_type="text/csv; charset=utf-8", headers=named)
    if suffix == "json":
        return Response(json.dumps(rows, ensure_ascii=False), media_type="application/json", headers=named)
    with tempfile.TemporaryDirectory(prefix="slotsweep-results-") as folder:
        path = Path(folder) / "results.parquet"
        write_parquet(rows, path)
        return Response(path.read_bytes(), media_type="application/vnd.apache.parquet", headers=named)
