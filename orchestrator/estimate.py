"""What a plan will cost, from what the same mechanisms cost here before; where nothing is known, it says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.batching import stream_tokens
from orchestrator.forecast import Forecast, History, Work
from orchestrator.plan import Plan

if TYPE_CHECKING:
    from orchestrator.store.glance import Glance

RECENT_STARTS = 5
START_SECONDS = 8.0
START_SPREAD = 1.5
TRIAL_SECONDS = 5e-4
"""What starting workers, where none were started before, and handing out, storing and tracking a trial, cost beside
the arithmetic; a start may take START_SPREAD times as long, or as short."""

STORE_BYTES_PER_TRIAL = 1_600
TRACKING_BYTES_PER_TRIAL = 9_000
"""Measured on sweeps of thousands of trials with the embedded SQLite stores."""

BLOCK_ROWS = 256
QUERY_BLOCK_BYTES = 32 * 2**20
WORKER_BYTES = 300 * 2**20


@dataclass(frozen=True)
class Estimate:
    """What a plan takes on `workers` cores.

    hours         from start to end; None if unknown. low_hours, high_hours: its 95% interval
    worker_hours  of computing, all workers together, as far as known
    basis         what the estimate rests on, or what would make it known
    memory_bytes, disk_bytes
    """

    hours: float | None
    low_hours: float | None
    high_hours: float | None
    worker_hours: float
    workers: int
    basis: str
    memory_bytes: int
    disk_bytes: int

    def as_json(self) -> dict[str, Any]:
        """The estimate as `plan --json` prints it."""
        return asdict(self)


def estimate(plan: Plan, store: Glance | None, done: Set[str], workers: int) -> Estimate:
    """Estimate for the trials of `plan` whose keys are not among `done`."""
    works = _works(plan, done)
    history = History(store, {work.cell.mechanism["name"] for work in works if work.trials})
    forecast = history.forecast(works)
    new_trials = sum(work.trials for work in works)
    workers = 1 if plan.kind.measures_time else workers
    starts = store.starts(RECENT_STARTS) if store is not None else []
    start = sorted(starts)[len(starts) // 2] if starts else START_SECONDS
    if not new_trials:
        start = 0.0
    handling = new_trials * TRIAL_SECONDS
    computing = max(forecast.total / workers, forecast.longest)
    known = not forecast.unknown
    spread = forecast.spread
    return Estimate(
        hours=(computing + handling + start) / 3600 if known else None,
        low_hours=(computing / spread + handling + start / START_SPREAD) / 3600 if known else None,
        high_hours=(computing * spread + handling + start * START_SPREAD) / 3600 if known else None,
        worker_hours=forecast.total / 3600,
        workers=workers,
        basis=_basis(forecast, start) if new_trials else "everything is there already",
        memory_bytes=workers * _worker_memory(plan, history),
        disk_bytes=new_trials * (STORE_BYTES_PER_TRIAL + TRACKING_BYTES_PER_TRIAL),
    )


def _works(plan: Plan, done: Set[str]) -> list[Work]:
    """The plan's cells, each with how many of its trials are to be computed. Trials listed twice count once."""
    cells = {cell.digest: cell for group in plan.groups for cell in group.cells}
    keys = {key: cell.digest for cell, _, key in plan.trials() if key not in done}
    missing = Counter(keys.values())
    return [Work(cell, missing[digest]) for digest, cell in cells.items()]


def _basis(forecast: Forecast, start: float) -> str:
    if forecast.unknown:
        return (
            f"unknown: no finished trial here yet of {', '.join(forecast.unknown)}; "
            "a run with `--set seeds=1` would tell"
        )
    beyond = sorted({size.removeprefix("workload.") for sizes in forecast.beyond.values() for size in sizes})
    return (
        f"95% interval from {forecast.trials:,} trials of these mechanisms here"
        f"{', extrapolated in ' + ', '.join(beyond) if beyond else ''}; 0.5 ms a trial, {start:.0f} s to start"
    )


def _worker_memory(plan: Plan, history: History) -> int:
    """Bytes a worker takes: the most that any took on streams as long as these, or what the blocks it holds take."""
    longest = max((stream_tokens(group.workload.identity()) for group in plan.groups), default=0)
    blocks = WORKER_BYTES + 2 * 8 * BLOCK_ROWS * longest + 2 * min(QUERY_BLOCK_BYTES, 8 * longest * longest)
    lengths = [(stream_tokens(cost.cell.workload), cost.peak_memory_bytes or 0) for cost in history.cells]
    seen = max((peak for tokens, peak in lengths if tokens <= longest), default=0)
    measured = seen if any(tokens >= longest and peak for tokens, peak in lengths) else 0
    return measured or max(blocks, seen)
