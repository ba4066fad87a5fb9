"""Pages beside the sweeps: workers, comparisons, and what holds of a paper."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, Response

from dashboards.pages.claims import PaperLine, paper_page, papers_page
from dashboards.pages.comparison import ComparisonView, comparison_page
from dashboards.pages.frame import Link, Live
from dashboards.pages.sweep import Drawing, drawing_part
from dashboards.pages.workers import FleetView, NodeLine, WorkerLine, workers_page, workers_part
from orchestrator.claims import known_paper
from orchestrator.errors import ExecutorError, RequestError
from orchestrator.fleet import Node
from orchestrator.roster import listed_nodes, roster_of
from orchestrator.service.access import PageViewer, StoreOf
from orchestrator.service.artist import Artist, Wanted
from orchestrator.service.remembered import Remembered
from orchestrator.service.routes.asking import ArtistOf
from orchestrator.service.shown import SELDOM, drawing_of, visitor_of
from orchestrator.settings import Settings
from orchestrator.store.records import WorkerRow
from orchestrator.store.status import SweepStatus
from orchestrator.store.store import Store

router = APIRouter()

FLEET_SECONDS = 5.0
PATIENCE_SECONDS = 3.0
CHOICES = 100
"""Sweeps that are offered for a comparison: the newest."""

Fleet = tuple[list[WorkerRow], list[Node], str | None]
By = Annotated[Literal["", "device", "machine"], Query()]
Identity = Annotated[str, Query(max_length=64)]


def remembered_fleet(settings: Settings, store: Store) -> Remembered[Fleet]:
    """Workers and nodes, or why nodes cannot be listed: asked for once for all who look."""

    def ask() -> Fleet:
        try:
            nodes, unlisted = listed_nodes(settings.ray_address)
        except (ExecutorError, RequestError) as error:
            nodes, unlisted = [], str(error)
        return store.workers(), nodes, unlisted

    return Remembered(ask, FLEET_SECONDS - 1.0)


def fleet_of(request: Request) -> Remembered[Fleet]:
    """The service's fleet."""
    fleet: Remembered[Fleet] = request.app.state.fleet
    return fleet


FleetOf = Annotated[Remembered[Fleet], Depends(fleet_of)]
All = Annotated[Literal["", "1"], Query(alias="all")]


@router.get("/workers")
def workers(caller: PageViewer, fleet: FleetOf, every: All = "") -> HTMLResponse:
    """The fleet."""
    return HTMLResponse(workers_page(_fleet(fleet, bool(every)), visitor_of(caller)))


@router.get("/parts/workers")
def workers_again(fleet: FleetOf, every: All = "") -> HTMLResponse:
    """The fleet as it is now."""
    return HTMLResponse(workers_part(_fleet(fleet, bool(every))))


def _fleet(fleet: Remembered[Fleet], every: bool) -> FleetView:
    rows, nodes, unlisted = fleet.get()
    roster = roster_of(rows, nodes, unlisted, every=every)
    return FleetView(
        nodes=tuple(
            NodeLine(node.name, node.cpus, node.cuda, node.mps, node.accelerator or "", node.state)
            for node in roster.nodes
        ),
        unlisted=roster.unlisted,
        workers=tuple(
            WorkerLine(
                id=one.id,
                device=one.device,
                machine=one.machine,
                state=one.state,
                trials=one.trials,
                done=one.done,
                agreement=one.agreement,
                silent=roster.now - one.last_seen,
            )
            for one in roster.workers
        ),
        every=every,
        live=Live("/parts/workers" + ("?all=1" if every else ""), FLEET_SECONDS),
    )


@router.get("/compare")
def compare(
    caller: PageViewer, store: StoreOf, artist: ArtistOf, a: Identity = "", b: Identity = "", by: By = ""
) -> HTMLResponse:
    """Choose what to compare, and see it."""
    sweeps = [store.status(name.strip()) for name in (a, b) if name.strip()]
    alone = len(sweeps) == 1 and not by and len(store.hardware_of(sweeps[0].id)) < 2
    view = ComparisonView(
        first=a,
        second=b,
        by=by,
        choices=tuple((one.id, f"{one.name} ({one.state})") for one in _choices(store, sweeps)),
        compared=tuple(Link(one.name, f"/sweeps/{one.id}", one.id) for one in sweeps),
        drawing=_comparison(artist, sweeps, by, PATIENCE_SECONDS) if sweeps and not alone else None,
    )
    return HTMLResponse(comparison_page(view, visitor_of(caller)))


def _choices(store: Store, chosen: list[SweepStatus]) -> list[SweepStatus]:
    """What can be compared, the newest first; before all others what is called as one of the `chosen` ones."""
    names = {one.name for one in chosen}
    return sorted(store.statuses(limit=CHOICES), key=lambda one: one.name not in names)


@router.get("/parts/comparison")
def comparison_again(
    store: StoreOf, artist: ArtistOf, a: Identity, b: Identity = "", by: By = "", seen: str = ""
) -> Response:
    """The comparison, unless the one that was `seen` is the newest."""
    sweeps = [store.status(name.strip()) for name in (a, b) if name.strip()]
    if not sweeps:
        raise RequestError("name a sweep to compare")
    return _unless_seen(_comparison(artist, sweeps, by, 0.0), seen)


def _comparison(artist: Artist, sweeps: list[SweepStatus], by: str, patience: float) -> Drawing:
    shows = tuple((one.state, one.counts.done) for one in sweeps)
    names = [one.id for one in sweeps]
    drawn = artist.draw(Wanted("comparison", (by, *names)), shows, patience)
    query = f"a={names[0]}" + (f"&b={names[1]}" if len(names) > 1 else "") + (f"&by={by}" if by else "")
    return drawing_of(drawn, shows, f"/parts/comparison?{query}", SELDOM)


def _unless_seen(drawing: Drawing, seen: str) -> Response:
    if drawing.version == seen:
        return Response(status_code=204)
    return HTMLResponse(drawing_part(drawing))


@router.get("/claims")
def papers(caller: PageViewer) -> HTMLResponse:
    """The papers whose claims can be checked."""
    from tasks.claims import PAPERS

    return HTMLResponse(papers_page(tuple(map(_paper, PAPERS)), visitor_of(caller)))


@router.get("/claims/{name}")
def paper(name: str, caller: PageViewer, store: StoreOf, artist: ArtistOf) -> HTMLResponse:
    """What the sweeps that are here say of a paper's claims."""
    line = _paper(name)
    return HTMLResponse(paper_page(line, _certificate(artist, store, name, PATIENCE_SECONDS), visitor_of(caller)))


@router.get("/parts/claims/{name}")
def paper_again(name: str, store: StoreOf, artist: ArtistOf, seen: str = "") -> Response:
    """The certificate, unless the one that was `seen` is the newest."""
    return _unless_seen(_certificate(artist, store, _paper(name).name, 0.0), seen)


@cache
def _paper(name: str) -> PaperLine:
    found = known_paper(name)
    return PaperLine(found.name, found.title, len(found.claims))


def _certificate(artist: Artist, store: Store, name: str, patience: float) -> Drawing:
    shows = store.last_change()
    drawn = artist.draw(Wanted("certificate", (name,)), shows, patience)
    return drawing_of(drawn, shows, f"/parts/claims/{name}", SELDOM)
