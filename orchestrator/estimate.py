"""What a plan will cost, from what the same mechanisms cost here before; where nothing is known, it says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.crew import Crew
from orchestrator.footprint import disk, worker_memory
from orchestrator.forecast import Forecast, History, Work
from orchestrator.overheads import RECENT_RUNS, Overheads, overheads
from orchestrator.plan import Plan
from tasks.devices import AskedDevice

if TYPE_CHECKING:
    from orchestrator.store.glance import Glance

BESIDE_SPREAD = 1.5
"""What a run takes beside computing may be this much more, or less."""


@dataclass(frozen=True)
class Cost:
    """What trials take on `workers`; None: unknown. `low_*`, `high_*`: 95% intervals.

    hours                from start to end
    worker_hours         of computing, all workers together, as far as known
    memory_bytes         of all workers; device_memory_bytes: of the devices' own, None also where there is none
    disk_bytes           that results take in the store and in MLflow
    basis                what the time rests on, or what would make it known
    """

    hours: float | None
    low_hours: float | None
    high_hours: float | None
    worker_hours: float
    workers: int | None
    basis: str
    memory_bytes: int | None
    low_memory_bytes: int | None
    high_memory_bytes: int | None
    device_memory_bytes: int | None
    disk_bytes: int


@dataclass(frozen=True)
class DeviceCost(Cost):
    """What the `trials` for one device class take, as if there were no others."""

    trials: int


@dataclass(frozen=True)
class Estimate(Cost):
    """What a plan takes, all of it and by the device class that it asks for. Classes compute side by side.

    workers_basis, disk_basis: what these numbers rest on
    """

    workers_basis: str
    disk_basis: str
    by_device: Mapping[AskedDevice, DeviceCost]

    def as_json(self) -> dict[str, Any]:
        """The estimate as `plan --json` prints it."""
        return asdict(self)


def estimate(plan: Plan, store: Glance | None, done: Set[str], crew: Crew) -> Estimate:
    """Estimate for the trials of `plan` whose keys are not among `done`, by what `store` knows."""
    works = _works(plan, done)
    history = History(store, {work.cell.mechanism["name"] for work in works if work.trials})
    beside = overheads(store.runs(RECENT_RUNS) if store is not None else [])
    parts = {
        device: _Part(device, history, beside, [work for work in works if work.cell.device == device], crew)
        for device in plan.devices
    }
    costs = {device: part.cost(plan.spec.kind) for device, part in parts.items()}
    space = disk(history, works, plan.spec.kind)
    hours, low, high = _together(list(parts.values()), beside)
    return Estimate(
        hours=hours,
        low_hours=low,
        high_hours=high,
        worker_hours=sum(cost.worker_hours for cost in costs.values()),
        workers=_sum([cost.workers for cost in costs.values()]),
        basis="; ".join(dict.fromkeys(part.basis for part in parts.values())),
        memory_bytes=_sum([cost.memory_bytes for cost in costs.values()]),
        low_memory_bytes=_sum([cost.low_memory_bytes for cost in costs.values()]),
        high_memory_bytes=_sum([cost.high_memory_bytes for cost in costs.values()]),
        device_memory_bytes=sum(cost.device_memory_bytes or 0 for cost in costs.values()) or None,
        disk_bytes=space.bytes,
        workers_basis=crew.basis,
        disk_basis=space.basis,
        by_device=costs,
    )


def _works(plan: Plan, done: Set[str]) -> list[Work]:
    """The plan's cells, each with how many of its trials are to be computed, at most. Those listed twice count once."""
    cells = {cell.digest: cell for cell in plan.cells}
    keys = {key: cell.digest for cell, _, key in plan.trials() if key in done}
    there = Counter(keys.values())
    return [Work(cell, plan.counts[digest] - there[digest]) for digest, cell in cells.items()]


class _Part:
    """The trials for one device class."""

    def __init__(
        self, device: AskedDevice, history: History, beside: Overheads, works: Sequence[Work], crew: Crew
    ) -> None:
        self.trials = sum(work.trials for work in works)
        self.workers = crew.workers[device]
        self.forecast: Forecast = history.forecast(works)
        self._device, self._history, self._beside, self._works, self._crew = device, history, beside, works, crew

    @property
    def seconds(self) -> tuple[float, float, float] | None:
        """Of computing, with its interval; None if it is unknown."""
        if not self.trials:
            return 0.0, 0.0, 0.0
        if self.forecast.unknown or self.workers is None:
            return None
        expected, spread = max(self.forecast.total / self.workers, self.forecast.longest), self.forecast.spread
        return expected, expected / spread, expected * spread

    def cost(self, kind: str) -> DeviceCost:
        """What these trials take, of a sweep of `kind`."""
        hours, low, high = _together([self], self._beside)
        workers, memory = self.workers, worker_memory(self._history, self._works)
        known = None if workers is None or memory is None else memory.of(workers)
        return DeviceCost(
            hours=hours,
            low_hours=low,
            high_hours=high,
            worker_hours=self.forecast.total / 3600,
            workers=workers,
            basis=self.basis,
            memory_bytes=None if known is None else known.bytes,
            low_memory_bytes=None if known is None else known.low,
            high_memory_bytes=None if known is None else known.high,
            device_memory_bytes=None if known is None else known.device_bytes,
            disk_bytes=disk(self._history, self._works, kind).bytes,
            trials=self.trials,
        )

    @property
    def basis(self) -> str:
        """What the time rests on, or what would make it known."""
        if not self.trials:
            return "everything is there already"
        if self.forecast.unknown:
            return (
                f"unknown: no finished trial here yet of {', '.join(self.forecast.unknown)}; "
                "a run with `--set seeds=1` would tell"
            )
        if self.workers is None:
            return f"unknown: how many workers will compute on {self._device} ({self._crew.basis})"
        beyond = sorted({size.removeprefix("workload.") for sizes in self.forecast.beyond.values() for size in sizes})
        return (
            f"95% interval from {self.forecast.trials:,} trials of these mechanisms here"
            f"{', extrapolated in ' + ', '.join(beyond) if beyond else ''}; {self._beside.start:.1f} s to start, "
            f"{self._beside.ends:.1f} s to end, {1000 * self._beside.trial:.1f} ms a trial"
        )


def _together(parts: Sequence[_Part], beside: Overheads) -> tuple[float | None, float | None, float | None]:
    """Hours that `parts` take side by side, and their interval."""
    trials = sum(part.trials for part in parts)
    seconds = [part.seconds for part in parts]
    known = [one for one in seconds if one is not None]
    if len(known) < len(seconds):
        return None, None, None
    expected, low, high = (max(column, default=0.0) for column in zip(*known, strict=True)) if known else (0.0,) * 3
    fixed = beside.seconds(trials) if trials else 0.0
    return (expected + fixed) / 3600, (low + fixed / BESIDE_SPREAD) / 3600, (high + fixed * BESIDE_SPREAD) / 3600


def _sum(numbers: Sequence[int | None]) -> int | None:
    """The sum; None if one is unknown."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
