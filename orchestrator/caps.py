"""What a sweep may take of its workers: hours, or money at given prices. It is paused when that is used up.

An hour is one in which a worker computed for the sweep, or was lost while it did; workers that wait cost nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.errors import RequestError

USED_UP = "a cap is used up"
"""Begins why a sweep is paused that may take no more: whoever resumes it would find it paused again."""


@dataclass(frozen=True)
class Caps:
    """The most that a sweep may take.

    hours   of all workers together; None: any
    cost    in the currency of `prices`; None: any
    prices  of a worker for an hour, by device class; of a class that has none, the highest of the others counts
    """

    hours: float | None = None
    cost: float | None = None
    prices: Mapping[str, float] = field(default_factory=dict)

    @property
    def limited(self) -> bool:
        """Whether there is a cap at all."""
        return self.hours is not None or self.cost is not None

    def check(self) -> None:
        """Raise RequestError for a cap of 0 or less, and for one of costs where nothing has a price."""
        for name, cap in (("hours", self.hours), ("cost", self.cost)):
            if cap is not None and not 0.0 < cap < float("inf"):
                raise RequestError(f"--max-{name} {cap:g}: a cap is a number above 0")
        if self.cost is not None and not self.prices:
            raise RequestError("--max-cost needs prices: add --on TYPE (such as aws:g4dn.xlarge), or --price cpu=PRICE")

    def cost_of(self, seconds: Mapping[str, float]) -> float:
        """What workers' `seconds`, by device class, cost."""
        dearest = max(self.prices.values(), default=0.0)
        return sum(self.prices.get(device, dearest) * taken / 3600 for device, taken in seconds.items())

    def reached(self, seconds: Mapping[str, float]) -> str | None:
        """Which cap workers' `seconds`, by device class, have used up, in words; None: none."""
        hours, cost = sum(seconds.values()) / 3600, self.cost_of(seconds)
        if self.hours is not None and hours >= self.hours:
            return f"{USED_UP}: its workers have computed for {hours:.3g} hours, and --max-hours is {self.hours:g}"
        if self.cost is not None and cost >= self.cost:
            return f"{USED_UP}: its workers have cost {cost:.3g}, and --max-cost is {self.cost:g}"
        return None


UNCAPPED = Caps()
