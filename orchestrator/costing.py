"""What a plan will cost at given prices, and whether it is expected to reach its caps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.errors import RequestError

if TYPE_CHECKING:
    from orchestrator.caps import Caps
    from orchestrator.cluster.node_types import Rates
    from orchestrator.estimate import Estimate
    from orchestrator.plan_summary import PlanSummary


@dataclass(frozen=True)
class PlanCost:
    """What a plan costs, in the currency of its prices. None: unknown. `low*`, `high*`: 95% intervals.

    Workers are taken to be as fast as those whose trials the estimate rests on, and to cost nothing while they wait.

    worker_hours  of computing, all workers together
    prices        of a worker for an hour, by device class; trials for `any` are counted at the highest
    basis         what the prices rest on
    """

    cost: float | None
    low_cost: float | None
    high_cost: float | None
    worker_hours: float | None
    low_worker_hours: float | None
    high_worker_hours: float | None
    prices: dict[str, float]
    basis: str

    def as_json(self) -> dict[str, Any]:
        """The cost as `plan --json` prints it."""
        return asdict(self)


def plan_cost(estimate: Estimate, rates: Rates) -> PlanCost:
    """What a plan costs that takes as long as `estimate` says. Raises RequestError for a device that has no price."""
    hours, cost = _worker_hours(estimate), 0.0
    for device, part in estimate.by_device.items():
        price = max(rates.prices.values()) if device == "any" else rates.prices.get(device)
        if price is None:
            raise RequestError(
                f"the plan has trials for {device}, of which no price is given: add --price {device}=PRICE"
            )
        cost += part.worker_hours * price
    prices = dict(rates.prices)
    if hours is None:
        return PlanCost(None, None, None, None, None, None, prices, rates.basis)
    expected, low, high = hours
    lower, higher = (low / expected, high / expected) if expected else (1.0, 1.0)
    return PlanCost(cost, cost * lower, cost * higher, expected, low, high, prices, rates.basis)


def _worker_hours(estimate: Estimate) -> tuple[float, float, float] | None:
    """Hours of all workers together, with their interval, which is as wide as that of the time; None if unknown."""
    if estimate.hours is None or estimate.low_hours is None or estimate.high_hours is None:
        return None
    expected = estimate.worker_hours
    if not estimate.hours:
        return expected, expected, expected
    return expected, expected * estimate.low_hours / estimate.hours, expected * estimate.high_hours / estimate.hours


def expected_to_reach(described: list[PlanSummary], caps: Caps) -> list[str]:
    """A sentence on each plan that is expected to reach one of `caps`."""
    from orchestrator.cluster.node_types import Rates

    told: list[str] = []
    for summary in described:
        hours = _worker_hours(summary.estimate)
        if hours is not None and caps.hours is not None and hours[0] > caps.hours:
            told.append(
                f"{summary.name}: expected to take {_range(*hours)} worker hours, and --max-hours is {caps.hours:g}"
            )
        if caps.cost is None:
            continue
        dearest = max(caps.prices.values())
        prices = {str(device): caps.prices.get(device, dearest) for device in summary.estimate.by_device}
        found = plan_cost(summary.estimate, Rates(prices, ""))
        if (
            found.cost is not None
            and found.low_cost is not None
            and found.high_cost is not None
            and found.cost > caps.cost
        ):
            spread = _range(found.cost, found.low_cost, found.high_cost)
            told.append(f"{summary.name}: expected to cost {spread}, and --max-cost is {caps.cost:g}")
    return [f"{sentence}: it will be paused there" for sentence in told]


def _range(expected: float, low: float, high: float) -> str:
    return f"{expected:.2g} ({low:.2g} to {high:.2g})"
