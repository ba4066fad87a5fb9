"""What several routes of the API share: which sweep is meant, and drawings that are waited for."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Annotated

from fastapi import Depends, Path, Query, Request

from orchestrator.errors import NotThereError, RequestError, StoreError
from orchestrator.requests import find_status
from orchestrator.service.access import StoreOf, Viewer
from orchestrator.service.artist import Artist, Wanted
from orchestrator.service.glances import Glances
from orchestrator.store.status import SweepStatus

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.1


async def _glances_of(request: Request) -> Glances:
    glances: Glances = request.app.state.glances
    return glances


async def _artist_of(request: Request) -> Artist:
    artist: Artist = request.app.state.artist
    return artist


GlancesOf = Annotated[Glances, Depends(_glances_of)]
ArtistOf = Annotated[Artist, Depends(_artist_of)]


async def _sweep_of(
    caller: Viewer,
    store: StoreOf,
    glances: GlancesOf,
    sweep: Annotated[
        str, Path(max_length=64, description="the beginning of an id, or `last`: the newest that you submitted")
    ],
    fresh: Annotated[bool, Query(description="as it is now, not as it was a moment ago")] = False,
) -> SweepStatus:
    whose = caller.user if named(sweep) == "last" else None
    return await glances.get_soon(("sweep", sweep, whose), lambda: find_status(store, sweep, whose), fresh=fresh)


SweepOf = Annotated[SweepStatus, Depends(_sweep_of)]
"""The sweep that the path names."""


def named(sweep: str) -> str:
    """A sweep's name as a request gives it. Raises NotThereError for what is no beginning of an id."""
    if not (sweep.isascii() and sweep.isalnum()):
        raise NotThereError(f"there is no sweep `{sweep}`: `slotsweep status` lists them")
    return sweep


def drawn_now(artist: Artist, wanted: Wanted, version: Hashable) -> str:
    """The drawing of `wanted` that shows `version`.

    Raises RequestError where there is none, StoreError if it takes too long.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    while (left := until - time.monotonic()) > 0:
        drawn = artist.draw(wanted, version, left)
        if drawn is not None and drawn.version == version:
            if drawn.html is None:
                raise RequestError(drawn.error or "this cannot be drawn")
            return drawn.html
        time.sleep(LOOK_SECONDS)
    raise StoreError("this takes longer to draw than a request waits: ask again in a moment")


def shown_version(sweep: SweepStatus) -> Hashable:
    """What a drawing of `sweep` as it is now shows."""
    counts = sweep.counts
    return sweep.state, sweep.trials, counts.done, counts.failed, counts.cancelled
