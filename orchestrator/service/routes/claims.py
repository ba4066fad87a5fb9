"""What holds of a paper's claims."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import BaseModel, Field

from orchestrator.claims import Measurements, known_paper
from orchestrator.service.access import StoreOf, Viewer
from orchestrator.service.artist import Wanted
from orchestrator.service.routes.asking import ArtistOf, drawn_now
from tasks.certificate import Certificate

router = APIRouter(tags=["results"])


class Judged(BaseModel):
    """Which sweeps measure a paper's claims, and what these say of each."""

    measurements: Measurements = Field(
        description="sweeps by their ready-made spec; `missing`: those that are not done"
    )
    certificate: Certificate


@router.get("/claims/{paper}", response_model=Judged)
def judge_claims(_: Viewer, store: StoreOf, artist: ArtistOf, paper: Annotated[str, Path(max_length=64)]) -> Response:
    """Judge a paper's claims by what has been measured. Computes nothing."""
    known_paper(paper)
    told = drawn_now(artist, Wanted("judged", (paper,)), store.last_change())
    return Response(told, media_type="application/json")
