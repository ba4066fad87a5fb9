"""Running one batch on one worker: trials that share a workload, seed by seed on a CPU, together on an accelerator."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from models.config import MechanismConfig, canonical_json
from models.devices.device import DeviceClass
from models.mechanism import MECHANISMS
from tasks.evaluate import Outcome, failure
from tasks.fitting import Fits, fit_all
from tasks.kind import KINDS
from tasks.workload import WORKLOADS, AnyWorkload, Workload, WorkloadConfig
from workers.energy import EnergyMeter
from workers.log_capture import capture_lines
from workers.meter import ResourceMeter
from workers.system_metrics import LONG_SECONDS, SystemSampler

if TYPE_CHECKING:
    from models.sequence.config import SequenceConfig
    from tasks.sequences import SequenceWorkload


@dataclass(frozen=True)
class BatchTask:
    """One batch as a worker is handed it: plain data, so that it crosses processes and code versions safely.

    kind: the job type; trials: (trial id, seed, index into `mechanisms`)
    timeout: most seconds a trial may take, None: any
    device: class of the device that computes it
    saved: a folder for long trainings on their way; None: they are not saved
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
    saved: str | None = None


@dataclass(frozen=True)
class TrialReport:
    """One trial's outcome and its share of what the batch cost. Times are seconds since the epoch, UTC.

    wall_seconds, cpu_seconds               its own, and an equal share of what was done for all that share a stream
    own_seconds                             the part of wall_seconds that is its own; None if nobody measured it
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
    own_seconds: float | None = None


@dataclass(frozen=True)
class BatchReport:
    """What a worker sends back for one batch. `log`: the last lines that the batch's code printed or logged."""

    attempt: int
    trials: tuple[TrialReport, ...]
    log: tuple[str, ...] = field(default=())


def run_batch(task: BatchTask, stand_in: DeviceClass | None = None) -> BatchReport:
    """Evaluate every trial of `task`. Never raises for a trial's fault: such a trial carries its reason.

    stand_in: computes in place of the task's device, by the same code, on a machine that lacks it
    """
    device = stand_in or task.device
    beside = nullcontext() if KINDS.implementation(task.kind).measures_time else SystemSampler(device)
    with capture_lines() as tail, EnergyMeter(device) as energy, beside as sampler:
        reports = _run_trials(task, device)
    if sampler is not None:
        reports = [_with_system(report, sampler) for report in reports]
    return BatchReport(task.attempt, tuple(_share(reports, energy)), tail.lines)


def _with_system(report: TrialReport, sampler: SystemSampler) -> TrialReport:
    """The report with what the machine was doing meanwhile, if the trial took long."""
    if report.wall_seconds < LONG_SECONDS or not (system := sampler.series(report.started, report.finished)):
        return report
    return replace(report, outcome=replace(report.outcome, series=report.outcome.series | system))


def _share(reports: list[TrialReport], energy: EnergyMeter) -> list[TrialReport]:
    """The reports with the batch's energy, by how long each trial took: counters step too seldom for single trials."""
    if energy.joules is None:
        return [replace(report, energy_reason=energy.reason) for report in reports]
    each = energy.joules / sum(report.wall_seconds for report in reports)
    return [replace(report, energy_joules=each * report.wall_seconds) for report in reports]


def _run_trials(task: BatchTask, device: DeviceClass) -> list[TrialReport]:
    """Reports of the task's trials, without energy."""
    if MECHANISMS.implementation(task.mechanisms[0]["name"]).reads_ids:
        return _train_sequences(task, device)
    configs = [load_mechanism(tree) for tree in task.mechanisms]
    reports: list[TrialReport] = []
    calls = _calls(task)
    training = _train(task, device, configs, list(dict.fromkeys(seed for _, seed, _ in task.trials)))
    part = 1.0 / len(task.trials)
    for call in calls:
        started = time.time()
        with ResourceMeter(device) as meter:
            outcomes = _evaluate(task, device, call, [configs[index] for index in call.mechanisms], training.fits)
        reports += _reports(call.trials, outcomes, started, meter, training, part)
    return reports


def _train_sequences(task: BatchTask, device: DeviceClass) -> list[TrialReport]:
    """Reports of trials of sequence models, without energy."""
    from tasks.training import Lane, TrainingRun

    started = time.time()
    configs = [cast("SequenceConfig", load_mechanism(tree)) for tree in task.mechanisms]
    lanes = [Lane(configs[index], seed) for _, seed, index in task.trials]
    saved = None if task.saved is None else Path(task.saved)
    with ResourceMeter(device) as meter:
        try:
            workload = cast("SequenceWorkload[Any]", load_workload(task.workload))
            run = TrainingRun(device, workload, task.episodes, task.dtype, task.timeout, saved)
            outcomes = KINDS.implementation(task.kind).train(run, lanes)
        except Exception as error:  # the workload's own fault: every trial that reads it fails with the same reason
            outcomes = [failure(error)] * len(lanes)
    return _reports([trial for trial, _, _ in task.trials], outcomes, started, meter, Training({}), 0.0)


def _reports(
    trials: Sequence[int],
    outcomes: Sequence[Outcome],
    started: float,
    meter: ResourceMeter,
    training: Training,
    part: float,
) -> list[TrialReport]:
    """Reports of trials that ran in one call, each with its own time, a share of the rest, and `part` of `training`."""
    finished = time.time()
    trained = training.wall_seconds * part
    own = [outcome.seconds or 0.0 for outcome in outcomes]
    together = max(0.0, meter.wall_seconds - sum(own)) / len(own)
    cpu_rate = meter.cpu_seconds / (sum(own) + together * len(own))
    return [
        TrialReport(
            trial,
            outcome,
            started - trained,
            finished,
            wall_seconds=alone + together + trained,
            cpu_seconds=(alone + together) * cpu_rate + training.cpu_seconds * part,
            peak_memory_bytes=largest(training.peak_memory_bytes, meter.peak_memory_bytes),
            device_memory_bytes=largest(training.device_memory_bytes, meter.device_memory_bytes),
            own_seconds=None if outcome.seconds is None else alone + trained,
        )
        for trial, outcome, alone in zip(trials, outcomes, own, strict=True)
    ]


@dataclass(frozen=True)
class Call:
    """Trials evaluated in one call: `seeds` times `mechanisms` (indices into the task's), seed by seed."""

    seeds: tuple[int, ...]
    mechanisms: tuple[int, ...]
    trials: tuple[int, ...]


def _calls(task: BatchTask) -> list[Call]:
    """The calls of a batch: one a seed on a CPU; an accelerator takes all seeds with the same mechanisms at once."""
    by_seed: dict[int, dict[int, int]] = {}
    for trial, seed, mechanism in task.trials:
        by_seed.setdefault(seed, {})[mechanism] = trial
    if task.device == "cpu":
        return [Call((seed,), tuple(members), tuple(members.values())) for seed, members in by_seed.items()]
    together: dict[tuple[int, ...], list[int]] = {}
    for seed, members in by_seed.items():
        together.setdefault(tuple(members), []).append(seed)
    return [
        Call(tuple(seeds), mechanisms, tuple(by_seed[seed][index] for seed in seeds for index in mechanisms))
        for mechanisms, seeds in together.items()
    ]


@dataclass(frozen=True)
class Training:
    """What a batch's mechanisms have learned, and what that cost."""

    fits: Fits
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int | None = None
    device_memory_bytes: int | None = None


def _train(task: BatchTask, device: DeviceClass, configs: list[MechanismConfig], seeds: list[int]) -> Training:
    """Train what has to be trained, all seeds together."""
    learners = [config for config in configs if MECHANISMS.implementation(config.name).trained]
    if not learners:
        return Training({})
    with ResourceMeter(device) as meter, _torch_on(device):
        try:
            fits = fit_all(_streams(task), learners, seeds)
        except Exception:  # the workload cannot be made: the evaluation will meet the same error, and report it
            fits = {}
    return Training(fits, meter.wall_seconds, meter.cpu_seconds, meter.peak_memory_bytes, meter.device_memory_bytes)


def largest(one: int | None, other: int | None) -> int | None:
    """The larger of two numbers, where there are any."""
    return max((number for number in (one, other) if number is not None), default=None)


def _torch_on(device: DeviceClass) -> AbstractContextManager[Any]:
    """Let torch make its tensors on `device`; on the CPU that is what it does."""
    if device == "cpu":
        return nullcontext()
    import torch

    return torch.device(device)


def _evaluate(
    task: BatchTask, device: DeviceClass, call: Call, mechanisms: Sequence[MechanismConfig], fits: Fits
) -> list[Outcome]:
    """Outcomes of the call's trials, in their order."""
    kind = KINDS.implementation(task.kind)
    rest = (task.episodes, task.dtype, task.timeout, fits)
    try:
        workload = _streams(task)
        if task.device == "cpu":
            return [outcome for seed in call.seeds for outcome in kind.evaluate(workload, mechanisms, seed, *rest)]
        rows = kind.evaluate_on(device, workload, mechanisms, call.seeds, *rest)
        return [outcome for row in rows for outcome in row]
    except Exception as error:  # the workload's own fault: every trial that reads it fails with the same reason
        return [failure(error)] * len(call.trials)


def _streams(task: BatchTask) -> Workload[Any]:
    """The task's workload, which makes streams."""
    return cast("Workload[Any]", load_workload(task.workload))


def load_mechanism(tree: dict[str, Any]) -> MechanismConfig:
    """The config that `tree`, an identity, describes."""
    return _mechanism(canonical_json(tree))


def load_workload(tree: dict[str, Any]) -> AnyWorkload[Any]:
    """The workload that `tree`, an identity, describes, made once a process: its data are loaded here."""
    return _workload(canonical_json(tree))


@lru_cache(maxsize=4096)
def _mechanism(tree: str) -> MechanismConfig:
    fields = json.loads(tree)
    config = MECHANISMS.config_class(fields["name"]).model_validate(fields)
    return cast("MechanismConfig", config)


@lru_cache(maxsize=8)
def _workload(tree: str) -> AnyWorkload[Any]:
    fields = json.loads(tree)
    config = WORKLOADS.config_class(fields["name"]).model_validate(fields)
    return WORKLOADS.implementation(fields["name"])(cast("WorkloadConfig", config))
