"""What a spec asks for, trial by trial: pure, lazy, and the same every time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING

from models.config import MechanismConfig, canonical_json
from models.devices.form import DEVICE_FORMS
from models.mechanism import MECHANISMS
from orchestrator.fingerprint import fingerprint, module_hashes
from orchestrator.store.records import CellRow
from tasks.devices import AskedDevice
from tasks.kind import KINDS, Kind
from tasks.kinds.tuning import Levels, TuningConfig
from tasks.search import parameters_of
from tasks.workload import WORKLOADS, WorkloadConfig
from workers.hardware import this_machine

if TYPE_CHECKING:
    from orchestrator.spec import Spec

TrialAsked = tuple[CellRow, int, str]
"""A trial as the plan lists it: (cell, seed, key)."""


@dataclass(frozen=True)
class StreamGroup:
    """Cells that read the same streams: one workload config on one device class."""

    workload: WorkloadConfig
    episodes: int
    cells: tuple[CellRow, ...]


class Plan:
    """The product of a spec's axes: every combination of workload, mechanism, device class and seed exactly once.

    Trials come in an order that lets workers share streams: workload by workload, seed by seed, then every mechanism.
    Mechanisms that are trained come last, each with all of its seeds, which train together.

    machine_of: the machine on which times are measured on a device class, where they are, or None if nobody has told:
    see `orchestrator.machines`
    fingerprints: those of the code that was pinned, as `fingerprints` had them then; None: of the code as it is now
    """

    def __init__(
        self,
        spec: Spec,
        machine_of: Callable[[str], str | None] = this_machine,
        fingerprints: Mapping[str, str] | None = None,
    ) -> None:
        self.spec = spec
        self.machine_of = machine_of
        self._fingerprints = fingerprints or {}

    @cached_property
    def groups(self) -> tuple[StreamGroup, ...]:
        """Stream groups in plan order. Where fields are searched, one cell stands for all that will be proposed."""
        mechanisms = tuple(self.spec.mechanism_configs())
        return tuple(
            StreamGroup(
                workload, self._episodes(workload), tuple(self.cell(workload, one, device) for one in mechanisms)
            )
            for workload in self.spec.workloads()
            for device in self.devices
        )

    @cached_property
    def cells(self) -> tuple[CellRow, ...]:
        """The cells of all groups."""
        return tuple(cell for group in self.groups for cell in group.cells)

    @property
    def devices(self) -> tuple[AskedDevice, ...]:
        """What trials are made for. A time belongs to one device: `any` is the CPU where times are measured."""
        if self.kind.measures_time and self.spec.device == "any":
            return ("cpu",)
        return self.spec.devices

    @property
    def untold(self) -> tuple[AskedDevice, ...]:
        """Device classes on which times would be measured by machines that nobody has told: trials have no keys yet."""
        return tuple(device for device in self.devices if self.kind.measures_time and self.machine_of(device) is None)

    def cell(self, workload: WorkloadConfig, mechanism: MechanismConfig, device: AskedDevice) -> CellRow:
        """The cell of `mechanism` on `workload` in a sweep of this spec."""
        pinned = self._fingerprints.get(f"{workload.name} {mechanism.name} {device}")
        return cell_row(
            self.spec.kind,
            {
                "workload": workload.identity(),
                "episodes": self._episodes(workload),
                "dtype": self.spec.dtype,
                "device": device,
                "machine": self.machine_of(device) if self.kind.measures_time else None,
            },
            mechanism.identity(),
            pinned or code_fingerprint(self.spec.kind, workload.name, mechanism.name, device),
        )

    def _episodes(self, workload: WorkloadConfig) -> int:
        implementation = WORKLOADS.implementation(workload.name)
        own = self.kind.sequence_episodes if implementation.makes_ids else None
        return self.spec.episodes or own or implementation.default_episodes

    @cached_property
    def kind(self) -> type[Kind]:
        """The spec's job type."""
        return KINDS.implementation(self.spec.kind)

    @property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of the plan's cells, by the names of workload, mechanism and device class."""
        return {f"{one.workload['name']} {one.mechanism['name']} {one.device}": one.fingerprint for one in self.cells}

    @property
    def leaking(self) -> tuple[str, ...]:
        """Names of the mechanisms whose outputs, as configured, depend on later tokens."""
        names = dict.fromkeys(one.name for one in self.spec.mechanism_configs() if one.leaks_future)
        return tuple(name for name in names if name not in self.may_leak)

    @cached_property
    def may_leak(self) -> tuple[str, ...]:
        """Names of the mechanisms whose outputs depend on later tokens with some of the values searched, not all."""
        if not isinstance(self.spec.options, TuningConfig):
            return ()
        from orchestrator.tuner.studies import studies_of

        found = (study for study in studies_of(self.spec) if study.may_leak)
        return tuple(dict.fromkeys(str(study.mechanism_fields["name"]) for study in found))

    @property
    def cell_count(self) -> int:
        """Cells of the plan."""
        return len(self.cells)

    @cached_property
    def grows(self) -> bool:
        """Whether trials will follow from results."""
        return self.kind.proposes or self.spec.until is not None

    @cached_property
    def counts(self) -> dict[str, int]:
        """Trials of each cell (a digest), at most: those that may follow from results are counted too."""
        if isinstance(self.spec.options, TuningConfig):
            return {cell.digest: self._proposed(self.spec.options, cell) for cell in self.cells}
        seeds = self.spec.until.rule.most if self.spec.until else len(self.spec.seeds)
        return {cell.digest: seeds for cell in self.cells}

    def _proposed(self, options: TuningConfig, cell: CellRow) -> int:
        """All seeds of what a cell stands for, at every level, and the held-out ones of the best.

        Of a reference the latter alone.
        """
        studies = len(options.samplers) * options.repeats
        levels = len(options.stops.levels) if isinstance(options.stops, Levels) else 1
        if not _is_searched(options, cell):
            return options.held_out
        return studies * (options.trials * levels * len(self.spec.seeds) + options.held_out)

    @property
    def trial_count(self) -> int:
        """Trials of the plan, at most."""
        return sum(self.counts[cell.digest] for cell in self.cells)

    def code(self) -> dict[str, dict[str, str]]:
        """Hashes of the modules behind each fingerprint of the plan's cells, by fingerprint and module."""
        parts = {(cell.workload["name"], cell.mechanism["name"], cell.device) for cell in self.cells}
        return dict(_code(_modules(self.spec.kind, *named)) for named in parts)

    def trials(self) -> Iterator[TrialAsked]:
        """Every trial that is asked for at first, in plan order."""
        seeds = self.spec.held_out if self.kind.proposes else self.spec.seeds
        for group in self.groups:
            cells = [cell for cell in group.cells if self.seeds_of(cell)]
            untrained = [cell for cell in cells if not trains_together(cell)]
            trained = [cell for cell in cells if trains_together(cell)]
            seed_by_seed = ((cell, seed) for seed in seeds for cell in untrained)
            cell_by_cell = ((cell, seed) for cell in trained for seed in seeds)
            for cell, seed in chain(seed_by_seed, cell_by_cell):
                yield cell, seed, trial_key(cell, seed)

    def seeds_of(self, cell: CellRow) -> tuple[int, ...]:
        """Seeds of the trials of a cell that are asked for at first: where fields are searched, of references alone."""
        if isinstance(self.spec.options, TuningConfig):
            return () if _is_searched(self.spec.options, cell) else self.spec.held_out
        return self.spec.seeds


def _is_searched(options: TuningConfig, cell: CellRow) -> bool:
    """Whether some fields of the cell's configs are searched."""
    workload = WORKLOADS.config_class(cell.workload["name"])
    mechanism = MECHANISMS.config_class(cell.mechanism["name"])
    return bool(parameters_of(options.search, workload, mechanism))


def is_trained(cell: CellRow) -> bool:
    """Whether the cell's mechanism is trained, all of its seeds together."""
    return MECHANISMS.implementation(cell.mechanism["name"]).trained


def trains_together(cell: CellRow) -> bool:
    """Whether the cell's seeds share a batch, in which they train together.

    Sequence models do so on accelerators alone: on CPUs each trial has a batch, and so a core, of its own. Where times
    are measured, models that read the same sequences share a batch instead.
    """
    if not MECHANISMS.implementation(cell.mechanism["name"]).reads_ids:
        return is_trained(cell)
    return cell.device not in ("cpu", "any") and cell.machine is None


def cell_row(kind: str, shared: dict[str, object], mechanism: dict[str, object], code: str) -> CellRow:
    """The cell of `mechanism` (an identity) under what its group shares, with its digest.

    The machine is part of a digest only where there is one; the kind is not: see `tasks.kind.Kind.evaluator`.
    """
    identity = {**shared, "mechanism": mechanism, "code": code}
    if identity["machine"] is None:
        del identity["machine"]
    digest = hashlib.sha256(canonical_json(identity).encode()).hexdigest()
    return CellRow(digest=digest, kind=kind, mechanism=mechanism, fingerprint=code, **shared)  # type: ignore[arg-type]


def trial_key(cell: CellRow, seed: int) -> str:
    """The key of the cell's trial with `seed`: 128 bits, in hexadecimal."""
    return hashlib.sha256(f"{cell.digest}:{seed}".encode()).hexdigest()[:32]


def code_fingerprint(kind: str, workload: str, mechanism: str, device: AskedDevice) -> str:
    """Fingerprint of all code that computes a trial of `mechanism` on `workload` in a sweep of `kind` (names).

    A trial for `any` device may be computed by the code for the CPU or by that for accelerators: it stands for both.
    """
    return _code(_modules(kind, workload, mechanism, device))[0]


def _modules(kind: str, workload: str, mechanism: str, device: AskedDevice) -> tuple[str, ...]:
    job_type = KINDS.implementation(kind)
    implementations = (WORKLOADS.implementation(workload), MECHANISMS.implementation(mechanism))
    modules = [implementation.__module__ for implementation in implementations]
    if MECHANISMS.implementation(mechanism).reads_ids:
        return job_type.sequence_evaluator, *modules
    modules = [job_type.evaluator, *modules]
    if device != "cpu" and len(job_type.devices()) > 1:
        modules += _device_modules(job_type, mechanism)
    return tuple(modules)


def _device_modules(kind: type[Kind], mechanism: str) -> list[str]:
    """What computes `mechanism` on accelerators: nothing where it has no form there."""
    if mechanism in DEVICE_FORMS:
        return [kind.device_evaluator, DEVICE_FORMS.implementation(mechanism).__module__]
    return [kind.device_evaluator] if MECHANISMS.implementation(mechanism).trained else []


@cache
def _code(modules: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Fingerprint of the code of `modules`, and the hash of each module that it covers."""
    hashes = module_hashes(modules)
    return fingerprint(hashes), hashes
