"""A sweep's report: its page, and all of it to take away."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from orchestrator.drawn_reports import whole_report
from orchestrator.service.access import Viewer
from orchestrator.service.artist import Artist, Wanted
from orchestrator.service.routes.asking import ArtistOf, SweepOf, drawn_now, shown_version
from orchestrator.store.status import SweepStatus

router = APIRouter(prefix="/sweeps/{sweep}", tags=["results"])

ZIP = "application/zip"

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "frame-ancestors 'none'; base-uri 'none'; sandbox allow-scripts"
)
"""A report brings its style and script in its file, and may do nothing else."""


@router.get("/report", response_class=HTMLResponse)
def report(_: Viewer, artist: ArtistOf, sweep: SweepOf) -> HTMLResponse:
    """The report: one HTML file that works by itself. Drawn now, unless it shows the sweep as it ended."""
    page = _report_of(artist, sweep).read_text(encoding="utf-8")
    return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})


@router.get(
    "/report.zip",
    response_class=Response,
    responses={
        200: {
            "description": "the report with the figures and tables beside it",
            "content": {ZIP: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
def report_files(_: Viewer, artist: ArtistOf, sweep: SweepOf) -> Response:
    """The report with its figures and tables, without folders; the page is `report.html`."""
    return Response(zipped(_report_of(artist, sweep).parent), media_type=ZIP)


def zipped(folder: Path) -> bytes:
    """The files of `folder`, without its folders."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(folder.iterdir()):
            if path.is_file():
                archive.write(path, path.name)
    return buffer.getvalue()


def _report_of(artist: Artist, sweep: SweepStatus) -> Path:
    """The HTML file."""
    return whole_report(sweep) or Path(drawn_now(artist, Wanted("report", (sweep.id,)), shown_version(sweep)))
