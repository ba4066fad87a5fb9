"""Running one batch on one worker: trials that share a workload are evaluated seed by seed."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

from models.config import MechanismConfig, canonical_json
from models.devices.device import DeviceClass
from models.mechanism import MECHANISMS
from tasks.evaluate import Outcome, failure
from tasks.fitting import Fits, fit_all
from tasks.kind import KINDS
from tasks.workload import WORKLOADS, Workload, WorkloadConfig
from workers.energy import EnergyMeter
from workers.log_capture import capture_lines
from workers.meter import ResourceMeter


@dataclass(frozen=True)
class BatchTask:
    """One batch as a worker is handed it: plain data, so that it crosses processes and code versions safely.

    kind: the job type; trials: (trial id, seed, index into `mechanisms`)
    timeout: most seconds a trial may take, None: any
    device: class of the device that computes it
    """

    attempt: int
    kind: str
    workload: dict[str, Any]
    mechanisms: tuple[dict[str, Any], ...]
    trials: tuple[tuple[int, int, int], ...]
    episodes: int
    dtype: str
    timeout: float | None = None
    device: DeviceClass = "cpu"


@dataclass(frozen=True)
class TrialReport:
    """One trial's outcome and its share of what the batch cost. Times are seconds since the epoch, UTC.

    peak_memory_bytes, device_memory_bytes  the worker's while this trial ran, and those that ran in one call with it
    energy_joules, energy_reason            as `workers.energy.EnergyMeter` tells of the batch
    """

    trial: int
    outcome: Outcome
    started: float
    finished: float
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int | None = None
    device_memory_bytes: int | None = None
    energy_joules: float | None = None
    energy_reason: str | None = None


@dataclass(frozen=True)
class BatchReport:
    """What a worker sends back for one batch. `log`: the last lines that the batch's code printed or logged."""

    attempt: int
    trials: tuple[TrialReport, ...]
    log: tuple[str, ...] = field(default=())


def run_batch(task: BatchTask) -> BatchReport:
    """Evaluate every trial of `task`. Never raises for a trial's fault: such a trial carries its reason."""
    with capture_lines() as tail, EnergyMeter(task.device) as energy:
        reports = _run_trials(task)
    return BatchReport(task.attempt, tuple(_share(reports, energy)), tail.lines)


def _share(reports: list[TrialReport], energy: EnergyMeter) -> list[TrialReport]:
    """The reports with the batch's energy, by how long each trial took: counters step too seldom for single trials."""
    if energy.joules is None:
        return [replace(report, energy_reason=energy.reason) for report in reports]
    each = energy.joules / sum(report.wall_seconds for report in reports)
    return [replace(report, energy_joules=each * report.wall_seconds) for report in reports]


def _run_trials(task: BatchTask) -> list[TrialReport]:
    """Reports of the task's trials, without energy."""
    configs = [load_mechanism(tree) for tree in task.mechanisms]
    by_seed: dict[int, list[tuple[int, int]]] = {}
    for trial, seed, mechanism in task.trials:
        by_seed.setdefault(seed, []).append((trial, mechanism))
    reports: list[TrialReport] = []
    training = _train(task, configs, list(by_seed))
    for seed, members in by_seed.items():
        started = time.time()
        with ResourceMeter(task.device) as meter:
            outcomes = _evaluate(task, [configs[m] for _, m in members], seed, training.fits)
        finished = time.time()
        peak = largest(training.peak_memory_bytes, meter.peak_memory_bytes)
        share, part = 1.0 / len(members), 1.0 / len(task.trials)
        wall = meter.wall_seconds * share + training.wall_seconds * part
        cpu = meter.cpu_seconds * share + training.cpu_seconds * part
        reports += [
            TrialReport(
                trial,
                outcome,
                started - training.wall_seconds * part,
                finished,
                wall,
                cpu,
                peak,
                largest(training.device_memory_bytes, meter.device_memory_bytes),
            )
            for (trial, _), outcome in zip(members, outcomes, strict=True)
        ]
    return reports


@dataclass(frozen=True)
class Training:
    """What a batch's mechanisms have learned, and what that cost."""

    fits: Fits
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int | None = None
    device_memory_bytes: int | None = None


def _train(task: BatchTask, configs: list[MechanismConfig], seeds: list[int]) -> Training:
    """Train what has to be trained, all seeds together."""
    learners = [config for config in configs if MECHANISMS.implementation(config.name).trained]
    if not learners:
        return Training({})
    with ResourceMeter(task.device) as meter:
        try:
            fits = fit_all(load_workload(task.workload), learners, seeds)
        except Exception:  # the workload cannot be made: the evaluation will meet the same error, and report it
            fits = {}
    return Training(fits, meter.wall_seconds, meter.cpu_seconds, meter.peak_memory_bytes, meter.device_memory_bytes)


def largest(one: int | None, other: int | None) -> int | None:
    """The larger of two numbers, where there are any."""
    return max((number for number in (one, other) if number is not None), default=None)


def _evaluate(task: BatchTask, mechanisms: list[MechanismConfig], seed: int, fits: Fits) -> list[Outcome]:
    try:
        return KINDS.implementation(task.kind).evaluate(
            load_workload(task.workload), mechanisms, seed, task.episodes, task.dtype, task.timeout, fits
        )
    except Exception as error:  # the workload's own fault: every trial that reads it fails with the same reason
        return [failure(error)] * len(mechanisms)


def load_mechanism(tree: dict[str, Any]) -> MechanismConfig:
    """The config that `tree`, an identity, describes."""
    return _mechanism(canonical_json(tree))


def load_workload(tree: dict[str, Any]) -> Workload[Any]:
    """The workload that `tree`, an identity, describes, made once a process: its data are loaded here."""
    return _workload(canonical_json(tree))


@lru_cache(maxsize=4096)
def _mechanism(tree: str) -> MechanismConfig:
    fields = json.loads(tree)
    config = MECHANISMS.config_class(fields["name"]).model_validate(fields)
    return cast("MechanismConfig", config)


@lru_cache(maxsize=8)
def _workload(tree: str) -> Workload[Any]:
    fields = json.loads(tree)
    config = WORKLOADS.config_class(fields["name"]).model_validate(fields)
    return WORKLOADS.implementation(fields["name"])(cast("WorkloadConfig", config))
