"""What the tracker is told: a sweep as a parent run, a trial as its child run, each in full at every delivery."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

RunStatus = Literal["SCHEDULED", "RUNNING", "FINISHED", "FAILED", "KILLED"]

RUN_ID_DIGITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentRun:
    """A sweep. Times are milliseconds since the epoch, UTC; metrics that are None or NaN are left out.

    experiment  name of the MLflow experiment: the sweep's name
    note        Markdown that MLflow shows as the run's description
    artifacts   files to show with the run: path inside the run's artifacts -> file here
    about       Markdown that MLflow shows as the experiment's description, unless it has one
    views       saved views of the experiment's table of runs, as `dashboards.mlflow_views` writes them, by key
    """

    run_id: str
    sweep: str
    experiment: str
    name: str
    status: RunStatus
    start_ms: int
    end_ms: int | None
    params: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, object] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    note: str = ""
    artifacts: Mapping[str, Path] = field(default_factory=dict)
    about: str = ""
    views: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRun:
    """A trial of a sweep. Times are milliseconds since the epoch, UTC; metrics that are None or NaN are left out.

    series  numbers that come in a row: MLflow's metrics with a value at each step
    steps   of a series that has others, its steps; else they are 0, 1, ...
    times   of a series that has them, the time of each of its numbers; else it is that of the other metrics
    """

    run_id: str
    parent_run_id: str
    sweep: str
    trial_key: str
    experiment: str
    name: str
    status: RunStatus
    start_ms: int
    end_ms: int | None
    params: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, object] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    series: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    steps: Mapping[str, Sequence[int]] = field(default_factory=dict)
    times: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where MLflow keeps a run: its own ids of the experiment and of the run."""

    experiment: str
    run: str


def parent_run_id_for(sweep: str) -> str:
    """The run id of a sweep: 32 hex digits, the same at every delivery."""
    return _digest(sweep)[:8] + "f" * 8 + _digest("parent", sweep)[:16]


def run_id_for(sweep: str, trial_key: str, generation: int, position: int = 0) -> str:
    """The run id of a trial in a sweep: 32 hex digits, the same at every delivery.

    `position` is the trial's fixed place in its sweep, below 2^32 - 1. MLflow's indexes are ordered by run id: ids that
    rise with the position keep an insert cheap however many runs the store holds (measured at 20,000 runs: 0.2 ms
    a run, against 0.7 ms with ids in random order).
    """
    return f"{_digest(sweep)[:8]}{position:08x}{_digest(sweep, trial_key, str(generation), str(position))[:16]}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
