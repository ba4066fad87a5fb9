"""The API's own description."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from orchestrator.service.access import Viewer

router = APIRouter(include_in_schema=False)


@router.get("/openapi.json")
def document(_: Viewer, request: Request) -> Response:
    """The OpenAPI document."""
    return JSONResponse(request.app.openapi())
