"""The pages of one sweep: how it stands, what can be done to it, its log."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from dashboards.pages.frame import Link, Live
from dashboards.pages.log import LogView, log_page, log_part
from dashboards.pages.sweep import Drawing, Fact, SweepView, cancel_page, drawing_part, state_part, sweep_page
from dashboards.text import plural
from orchestrator.log_tail import last_entries
from orchestrator.logs import elsewhere, log_file
from orchestrator.mlflow_links import pages_address
from orchestrator.service.access import ForbiddenError, FormSubmitter, PageViewer, StoreOf
from orchestrator.service.actions import Action, open_actions, steer
from orchestrator.service.artist import Artist, Wanted
from orchestrator.service.routes.asking import ArtistOf
from orchestrator.service.routes.taking import SettingsOf
from orchestrator.service.run_links import run_links
from orchestrator.service.shown import (
    SELDOM,
    devices_told,
    drawing_of,
    line_of,
    log_line,
    pace,
    state_of,
    visitor_of,
)
from orchestrator.settings import Settings
from orchestrator.store.states import ENDED
from orchestrator.store.status import SweepStatus
from orchestrator.store.store import Store
from tasks.kind import KINDS

router = APIRouter(prefix="/sweeps/{identity}")

PATIENCE_SECONDS = 1.5
"""How long a page waits for its first chart, before it is shown without."""

CHART_SECONDS = 3.0
LOG_ENTRIES = 200
WARNINGS = ("warning", "error")


@router.get("")
def sweep(identity: str, caller: PageViewer, store: StoreOf, artist: ArtistOf, settings: SettingsOf) -> Response:
    """Everything about a sweep; the beginning of its id leads to it."""
    status = store.status(identity)
    if status.id != identity:
        return RedirectResponse(f"/sweeps/{status.id}", 303)
    text = store.sweep_text(status.id)
    view = SweepView(
        state=state_of(store, caller, status),
        description=text.description,
        spec=text.spec,
        plan=_plan(store, status, text.path),
        chart=_chart(artist, status, PATIENCE_SECONDS),
        links=(*_links(store, status), *run_links(artist, settings, status)),
        command="" if pages_address(settings) else f"slotsweep dashboard {status.id}",
    )
    return HTMLResponse(sweep_page(view, visitor_of(caller)))


@router.get("/parts/state")
def state_again(identity: str, caller: PageViewer, store: StoreOf) -> HTMLResponse:
    """How it stands now."""
    return HTMLResponse(state_part(state_of(store, caller, store.status(identity)), visitor_of(caller)))


@router.get("/parts/chart")
def chart_again(identity: str, store: StoreOf, artist: ArtistOf, seen: str = "") -> Response:
    """Its chart, unless the one that was `seen` is the newest."""
    drawing = _chart(artist, store.status(identity), 0.0)
    if drawing.version == seen:
        return Response(status_code=204)
    return HTMLResponse(drawing_part(drawing))


def _chart(artist: Artist, sweep: SweepStatus, patience: float) -> Drawing:
    counts = sweep.counts
    shows = (sweep.state in ENDED, counts.done, counts.failed, sweep.trials)
    drawn = artist.draw(Wanted("chart", (sweep.id,)), shows, patience)
    fresh = drawn is not None and drawn.version == shows and sweep.state in ENDED
    return drawing_of(drawn, shows, f"/sweeps/{sweep.id}/parts/chart", SELDOM if fresh else CHART_SECONDS)


def _plan(store: Store, sweep: SweepStatus, path: str | None) -> tuple[Fact, ...]:
    shape = store.shape(sweep.id)
    cells, seeds = plural(shape.cells, "cell"), plural(shape.seeds, "seed")
    proposes = sweep.kind in KINDS and KINDS.implementation(sweep.kind).proposes
    if (proposes or sweep.growth is not None) and sweep.state not in ENDED:
        facts = [Fact("trials", "as many as results ask for; above they are counted as they come")]
    else:
        beside = f"{cells} with {seeds}" if sweep.trials == shape.cells * shape.seeds else f"{cells}, on up to {seeds}"
        facts = [
            Fact("trials", f"{sweep.trials:,}: {beside}"),
            Fact("devices", devices_told(shape.devices)),
            Fact("reused", f"{sweep.reused:,} of {sweep.trials:,} were done before"),
        ]
    facts.append(Fact("priority", str(sweep.priority)))
    return (*facts, Fact("file", path)) if path else tuple(facts)


def _links(store: Store, sweep: SweepStatus) -> list[Link]:
    here = f"/sweeps/{sweep.id}"
    ended = sweep.state in ENDED
    links = [Link("Report", f"{here}/report/", "everything in one page")] if ended or sweep.report else []
    beside = ["another sweep"] if store.count_sweeps() > 1 else []
    beside += ["its devices or machines with each other"] if len(store.hardware_of(sweep.id)) > 1 else []
    compare = [Link("Compare", f"/compare?a={sweep.id}", f"with {', or '.join(beside)}")] if beside else []
    return [
        *links,
        Link("Results as CSV", f"{here}/results.csv", "a row for each trial"),
        Link("Results as JSON", f"{here}/results.json"),
        Link("Results as Parquet", f"{here}/results.parquet"),
        Link("Log", f"{here}/log", "what happened, as it happens"),
        *compare,
    ]


@router.get("/cancel")
def ask_to_cancel(identity: str, caller: PageViewer, store: StoreOf) -> Response:
    """Ask whether it shall really be cancelled."""
    status = store.status(identity)
    if not caller.may_steer(status.user):
        raise ForbiddenError(f"sweep {status.id} is not yours to cancel")
    if Action.CANCEL not in open_actions(caller, status):
        return RedirectResponse(f"/sweeps/{status.id}", 303)
    return HTMLResponse(cancel_page(line_of(status), visitor_of(caller)))


@router.post("/{action}")
def act(identity: str, action: Action, caller: FormSubmitter, store: StoreOf) -> RedirectResponse:
    """Pause, resume, cancel or retry it."""
    steer(store, caller, identity, action)
    return RedirectResponse(f"/sweeps/{identity}", 303)


Level = Literal["", "warnings"]


@router.get("/log")
def log(identity: str, caller: PageViewer, store: StoreOf, settings: SettingsOf, level: Level = "") -> HTMLResponse:
    """The last entries of its log."""
    return HTMLResponse(log_page(_log(store, settings, identity, level), visitor_of(caller)))


@router.get("/parts/log")
def log_again(identity: str, store: StoreOf, settings: SettingsOf, level: Level = "") -> HTMLResponse:
    """The last entries of its log, as they are now."""
    return HTMLResponse(log_part(_log(store, settings, identity, level)))


def _log(store: Store, settings: Settings, identity: str, level: Level) -> LogView:
    status = store.status(identity)
    entries = last_entries(log_file(settings, status.id), LOG_ENTRIES, WARNINGS if level else ())
    address = f"/sweeps/{status.id}/parts/log" + (f"?level={level}" if level else "")
    shown = tuple(map(log_line, reversed(entries)))
    live = Live(address, pace(status))
    return LogView(line_of(status), shown, level != "", live, elsewhere(store, status.id))
