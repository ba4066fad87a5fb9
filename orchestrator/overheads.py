"""What a run takes beside computing, from what earlier runs took: starting workers, handing out, tracking, a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.store.records import RunCost

RECENT_RUNS = 8

START_SECONDS = 5.0
"""What starting workers takes where kernels are compiled, on a machine that does nothing else."""

COMPILED = 0.45
"""The share of a first start that later ones take, which find the kernels compiled."""

ENDS = (3.0, 1.5)
TRIAL = (5e-4, 3e-4)
"""What is believed, before anything was measured, of the seconds that a run takes beside computing: mean and standard
deviation of the constant part, and of the part for each trial."""

NOISE_SECONDS = 1.0
MOST_SECONDS = 60.0
"""Runs that took longer beside computing waited for something: a tracking store, a worker, another machine."""


@dataclass(frozen=True)
class Overheads:
    """Seconds to start workers; then a constant, and some for each trial. `runs`: how many runs this rests on."""

    start: float
    ends: float
    trial: float
    runs: int

    def seconds(self, trials: int) -> float:
        """What a run of `trials` takes beside computing."""
        return self.start + self.ends + trials * self.trial


def overheads(runs: Sequence[RunCost]) -> Overheads:
    """Overheads as of `runs`, the newest first: the last RECENT_RUNS of a store, or all it has."""
    known = [(run.trials, run.beside) for run in runs if run.beside is not None and 0.0 <= run.beside <= MOST_SECONDS]
    ends, trial = _fit(known)
    return Overheads(_start([run.start for run in runs]), ends, trial, len(known))


def _start(starts: Sequence[float]) -> float:
    """The median start, the very first one set to what it would have taken with kernels compiled."""
    if not starts:
        return START_SECONDS
    usual = list(starts)
    if len(starts) < RECENT_RUNS:
        usual[-1] = min(starts[-1], max(START_SECONDS, COMPILED * starts[-1]))
    return sorted(usual)[(len(usual) - 1) // 2]


def _fit(known: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """The constant and the part for each trial: least squares, what is believed of both counting as observations."""
    import numpy as np

    prior = np.array([ENDS, TRIAL])
    x = np.array([(1.0, float(trials)) for trials, _ in known]).reshape(-1, 2) / NOISE_SECONDS
    y = np.array([beside for _, beside in known]) / NOISE_SECONDS
    precision = np.diag(prior[:, 1] ** -2.0)
    ends, trial = np.linalg.solve(precision + x.T @ x, precision @ prior[:, 0] + x.T @ y).tolist()
    return max(0.0, ends), max(0.0, trial)
