"""The style sheet and the script of the pages: whoever logs in needs them before."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from dashboards.pages.assets import icon, script, style
from orchestrator.errors import NotThereError

router = APIRouter()

FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}


@router.get("/favicon.ico")
def favicon() -> Response:
    """The icon, for files that are opened by themselves: browsers ask for it here."""
    return Response(icon().text, media_type=icon().media_type, headers={"Cache-Control": "public, max-age=86400"})


@router.get("/static/{name}")
def asset(name: str) -> Response:
    """A file that pages load; its name tells what it holds, so that it may be kept."""
    for one in (style(), script()):
        if one.name == name:
            return Response(one.text, media_type=one.media_type, headers=FOR_EVER)
    raise NotThereError(f"there is no file `{name}`: load the page again")
