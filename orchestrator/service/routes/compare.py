"""What the devices or machines of one sweep, or two sweeps, made of the same trials."""

from __future__ import annotations

import base64
import json
from collections.abc import Hashable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field, TypeAdapter

from orchestrator.client.base import Comparing
from orchestrator.errors import RequestError
from orchestrator.requests import find_status
from orchestrator.service.access import StoreOf, Viewer
from orchestrator.service.artist import Wanted
from orchestrator.service.routes.asking import ArtistOf, drawn_now, named, shown_version
from orchestrator.service.routes.reports import ZIP

router = APIRouter(prefix="/compare", tags=["results"])

COMPARING = TypeAdapter(Comparing)

Names = Annotated[
    list[str],
    Query(alias="sweep", min_length=1, max_length=2, description="one sweep, or two, as in `/sweeps/{sweep}`"),
]
By = Annotated[Literal["device", "machine"] | None, Query(description="what one sweep is split by")]
PricesGiven = Annotated[
    list[str] | None,
    Query(alias="price", max_length=10, description="what a worker of a device class costs an hour, as `cuda=2.5`"),
]
Tolerance = Annotated[
    float | None,
    Query(ge=0, le=1e9, description="largest difference of means that is none: absolute up to 1, relative above"),
]


class ComparisonTold(BaseModel):
    """A comparison of each pair of sides."""

    sweeps: list[str]
    agree: bool = Field(description="whether all have all trials, and every cell is within the tolerance")
    comparisons: list[dict[str, Any]] = Field(description="as `slotsweep compare --json` prints them")
    rows: list[dict[str, Any]] = Field(description="the same, flat")
    tables: str = Field(description="the same, for a terminal")


Asked = tuple[Comparing, Hashable]


def _asked(
    caller: Viewer,
    store: StoreOf,
    names: Names,
    by: By = None,
    price: PricesGiven = None,
    tolerance: Tolerance = None,
) -> Asked:
    """What is compared, and what is there to compare."""
    found = [find_status(store, named(name), caller.user if name == "last" else None) for name in names]
    asked = Comparing(tuple(one.id for one in found), by, _prices(price or ()), tolerance)
    return asked, tuple(map(shown_version, found))


AskedOf = Annotated[Asked, Depends(_asked)]


def _prices(given: list[str] | tuple[()]) -> dict[str, float]:
    prices = {}
    for text in given:
        device, _, number = text.partition("=")
        try:
            prices[device] = float(number)
        except ValueError:
            raise RequestError(f"price={text}: expected DEVICE=PRICE, such as cuda=2.5") from None
        if not 0.0 < prices[device] < float("inf"):
            raise RequestError(f"price={text}: a price is a number above 0")
    return prices


@router.get("")
def compare(
    artist: ArtistOf,
    asked: AskedOf,
    width: Annotated[int, Query(ge=40, le=1000, description="columns of the terminal")] = 100,
) -> ComparisonTold:
    """Compare cell by cell, and what it cost."""
    what, version = asked
    told = drawn_now(artist, Wanted("compared", (COMPARING.dump_json(what).decode(), str(width))), version)
    return ComparisonTold.model_validate(json.loads(told))


@router.get(
    "/page.zip",
    response_class=Response,
    responses={
        200: {
            "description": "a page with tables and figures; `report.html` is the page",
            "content": {ZIP: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
def comparison_page(artist: ArtistOf, asked: AskedOf) -> Response:
    """The same as a page with files beside it."""
    what, version = asked
    told = drawn_now(artist, Wanted("comparison_files", (COMPARING.dump_json(what).decode(),)), version)
    return Response(base64.b64decode(told), media_type=ZIP)
