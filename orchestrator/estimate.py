"""What a plan will cost, from what the same mechanisms cost here before; where nothing is known, it says so."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.batching import stream_tokens
from orchestrator.plan import Plan

if TYPE_CHECKING:
    from orchestrator.store.glance import Glance

HISTORY_CELLS = 500
START_SECONDS = 8.0
TRIAL_SECONDS = 5e-4
"""What starting workers, and handing out, storing and tracking a trial, cost beside the arithmetic."""

STORE_BYTES_PER_TRIAL = 1_600
TRACKING_BYTES_PER_TRIAL = 9_000
"""Measured on sweeps of thousands of trials with the embedded SQLite stores."""

BLOCK_ROWS = 256
QUERY_BLOCK_BYTES = 32 * 2**20
WORKER_BYTES = 300 * 2**20


@dataclass(frozen=True)
class Estimate:
    """hours: on `workers` cores, None if unknown; basis: what it rests on; memory and disk in bytes."""

    hours: float | None
    workers: int
    basis: str
    memory_bytes: int
    disk_bytes: int

    def as_json(self) -> dict[str, Any]:
        """The estimate as `plan --json` prints it."""
        return asdict(self)


def estimate(plan: Plan, store: Glance | None, new_trials: int, workers: int) -> Estimate:
    """Estimate for the `new_trials` of `plan` that are not reused."""
    rates = _rates(store) if store is not None else {}
    names = {cell.mechanism["name"] for group in plan.groups for cell in group.cells}
    unknown = sorted(names - rates.keys())
    tokens = [stream_tokens(group.workload.identity()) for group in plan.groups]
    if unknown:
        hours, basis = None, f"unknown: no finished trial here yet of {', '.join(unknown)}"
    else:
        seconds = sum(
            rates[cell.mechanism["name"]] * length * group.episodes * len(plan.spec.seeds)
            for group, length in zip(plan.groups, tokens, strict=True)
            for cell in group.cells
        )
        share = new_trials / max(1, plan.trial_count)
        seconds = seconds * share / workers + new_trials * TRIAL_SECONDS + (START_SECONDS if new_trials else 0.0)
        hours = seconds / 3600
        basis = "time a token of earlier trials of these mechanisms here, 0.5 ms a trial, 8 s to start"
    longest = max(tokens, default=0)
    memory = workers * (WORKER_BYTES + 2 * 8 * BLOCK_ROWS * longest + 2 * min(QUERY_BLOCK_BYTES, 8 * longest * longest))
    disk = new_trials * (STORE_BYTES_PER_TRIAL + TRACKING_BYTES_PER_TRIAL)
    return Estimate(hours, workers, basis, memory, disk)


def _rates(store: Glance) -> dict[str, float]:
    """Mean wall seconds a token took, by mechanism name."""
    seconds: dict[str, float] = defaultdict(float)
    tokens: dict[str, float] = defaultdict(float)
    for cell, mean, count in store.cell_times(HISTORY_CELLS):
        seconds[cell.mechanism["name"]] += mean * count
        tokens[cell.mechanism["name"]] += stream_tokens(cell.workload) * cell.episodes * count
    return {name: seconds[name] / tokens[name] for name in seconds if tokens[name]}
