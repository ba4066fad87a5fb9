"""Options of commands that reckon with prices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from orchestrator.caps import Caps
    from orchestrator.cluster.node_types import Rates
    from orchestrator.plan_summary import PlanSummary

Price = Annotated[
    list[str] | None,
    typer.Option(help="what a worker of a device class costs an hour (repeatable)", metavar="DEVICE=PRICE"),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        help="machines whose list price counts, such as aws:g4dn.xlarge or gcp:a2-highgpu-1g:spot",
        metavar="TYPE",
    ),
]
MaxHours = Annotated[
    float | None, typer.Option("--max-hours", help="hours of all workers together after which the sweep is paused")
]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", help="what its workers may cost until the sweep is paused; needs --on or --price"),
]


def prices_given(texts: list[str]) -> dict[str, float]:
    """Prices by device class. Raises RequestError for one that is not a number, or a second one of a class."""
    from models.devices.device import DEVICE_CLASSES
    from orchestrator.errors import RequestError

    prices: dict[str, float] = {}
    for text in texts:
        device, _, number = text.partition("=")
        device = device.strip()
        try:
            price = float(number)
        except ValueError:
            raise RequestError(f"--price {text}: expected DEVICE=PRICE, such as --price cuda=2.5") from None
        if not 0.0 < price < float("inf"):
            raise RequestError(f"--price {text}: a price is a number above 0")
        if device not in DEVICE_CLASSES:
            raise RequestError(f"--price {text}: device classes are {', '.join(DEVICE_CLASSES)}")
        if device in prices:
            raise RequestError(f"--price {text}: {device} has a price already, {prices[device]:g}")
        prices[device] = price
    return prices


def rates(on: str | None, price: list[str] | None) -> Rates | None:
    """What workers cost by `--on`, prices of `--price` in place of the table's; None where neither is given."""
    given = prices_given(price or [])
    if on is None and not given:
        return None
    from orchestrator.cluster.node_types import Rates, rates_on

    told = ", ".join(f"{device} {one:g} an hour" for device, one in given.items())
    if on is None:
        return Rates(given, f"as given: {told}")
    listed = rates_on(on)
    return Rates({**listed.prices, **given}, f"{listed.basis}, and as given: {told}" if given else listed.basis)


def caps(hours: float | None, cost: float | None, found: Rates | None) -> Caps:
    """The caps that a command was given. Raises RequestError for those that cannot be kept."""
    from orchestrator.caps import Caps

    given = Caps(hours, cost, {} if found is None else dict(found.prices))
    given.check()
    return given


def expected_to_reach(described: list[PlanSummary], limits: Caps) -> list[str]:
    """As `orchestrator.costing.expected_to_reach`."""
    from orchestrator.costing import expected_to_reach

    return expected_to_reach(described, limits)
