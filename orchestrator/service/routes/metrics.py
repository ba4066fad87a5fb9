"""What Prometheus scrapes."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from orchestrator.service.access import Viewer
from orchestrator.service.answers import TROUBLES
from orchestrator.service.metrics import Metrics

router = APIRouter(tags=["metrics"])


@router.get("/metrics", response_class=PlainTextResponse, responses=TROUBLES)
def metrics(request: Request, _: Viewer) -> Response:
    """Metrics in Prometheus's text format. Needs a token of role viewer, as the API does."""
    told: Metrics = request.app.state.metrics
    return Response(told.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
