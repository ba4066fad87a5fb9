"""What a plan's trials take of memory and disk, from what finished trials took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.forecast import History, Work

BLOCK_ROWS = 256
QUERY_BLOCK_BYTES = 32 * 2**20
WORKER_BYTES = 300 * 2**20
"""What a worker holds: itself, blocks of cosines between tokens, and of queries with tokens."""

TYPICAL_RESULT = 400.0
"""Bytes of JSON of a result that is a few numbers."""

ROW_BYTES, ROW_FACTOR = 150.0, 1.7
RUN_BYTES, RUN_FACTOR = 6_000.0, 31.0
REPORT_BYTES = 3 * 2**20
"""A trial in the store and its run in MLflow, each a constant and a factor on the JSON of its result, and a sweep's
report: measured on sweeps of 600 to 10,000 trials with the embedded stores, whose results had 400 and 2,000 bytes."""


@dataclass(frozen=True)
class Memory:
    """The most bytes that are taken, with the 95% interval, and of a device's own memory (None: none)."""

    bytes: int
    low: int
    high: int
    device_bytes: int | None

    def of(self, workers: int) -> Memory:
        """What `workers` take that take as much each."""
        own = None if self.device_bytes is None else workers * self.device_bytes
        return Memory(workers * self.bytes, workers * self.low, workers * self.high, own)


def worker_memory(history: History, works: Sequence[Work]) -> Memory | None:
    """What a worker needs for `works`, of one device class; None if a mechanism among them was never measured."""
    if not any(work.trials for work in works):
        return Memory(0, 0, 0, None)
    main = history.largest(works, lambda cost: cost.peak_memory_bytes, _resident)
    if main is None:
        return None
    own = history.largest(works, lambda cost: cost.device_memory_bytes, float)
    spread = math.exp(1.96 * main.deviation / main.value)
    return Memory(
        round(main.value),
        round(main.value / spread),
        round(main.value * spread),
        None if own is None else round(own.value),
    )


def _resident(tokens: int) -> float:
    """What a worker holds that reads streams of `tokens`, roughly: the law is fitted to how much more or less it is."""
    return WORKER_BYTES + 2 * 8 * BLOCK_ROWS * tokens + 2 * min(QUERY_BLOCK_BYTES, 8 * tokens * tokens)


@dataclass(frozen=True)
class Disk:
    """Bytes that the results of some trials take in the store and in MLflow, and on what this rests."""

    bytes: int
    basis: str


def disk(history: History, works: Sequence[Work], kind: str) -> Disk:
    """What `works`, trials of sweeps of `kind`, will add to the stores."""
    trials = sum(work.trials for work in works)
    if not trials:
        return Disk(0, "everything is there already")
    stored = [cost for cost in history.cells if cost.cell.kind == kind and cost.result_bytes is not None]
    counted = sum(cost.trials for cost in stored)
    each = sum((cost.result_bytes or 0.0) * cost.trials for cost in stored) / counted if counted else TYPICAL_RESULT
    basis = (
        f"results of {counted:,} such trials of this kind take {each:,.0f} bytes each"
        if counted
        else f"no such trial of this kind is stored yet: as for results of {TYPICAL_RESULT:,.0f} bytes"
    )
    row, run = ROW_BYTES + ROW_FACTOR * each, RUN_BYTES + RUN_FACTOR * each
    whole = f"{basis}, {(row + run) / 1000:,.1f} kB with their MLflow run"
    return Disk(round(trials * (row + run) + REPORT_BYTES), whole)
