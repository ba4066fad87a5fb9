"""What a spec asks for, trial by trial: pure, lazy, and the same every time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from models.config import MechanismConfig, canonical_json
from models.mechanism import MECHANISMS
from orchestrator.fingerprint import fingerprint, module_hashes
from orchestrator.store.records import CellRow
from tasks.workload import WORKLOADS, WorkloadConfig

if TYPE_CHECKING:
    from orchestrator.spec import Spec

EVALUATOR = "tasks.evaluate"
"""The module that turns a trial into metrics; its code, and all it imports, is part of every trial's identity."""

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
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    @cached_property
    def groups(self) -> tuple[StreamGroup, ...]:
        """Stream groups in plan order."""
        mechanisms = [(config, config.identity()) for config in self.spec.mechanism_configs()]
        return tuple(
            self._group(workload, mechanisms, device)
            for workload in self.spec.workloads()
            for device in self.spec.devices
        )

    def _group(
        self, workload: WorkloadConfig, mechanisms: Sequence[tuple[MechanismConfig, dict[str, object]]], device: str
    ) -> StreamGroup:
        episodes = self.spec.episodes or WORKLOADS.implementation(workload.name).default_episodes
        shared = {"kind": self.spec.kind, "workload": workload.identity(), "episodes": episodes}
        shared |= {"dtype": self.spec.dtype, "device": device}
        cells = tuple(
            cell_row(shared, identity, code_fingerprint(workload.name, config.name)) for config, identity in mechanisms
        )
        return StreamGroup(workload, episodes, cells)

    @property
    def cell_count(self) -> int:
        """Cells of the plan."""
        return sum(len(group.cells) for group in self.groups)

    @property
    def trial_count(self) -> int:
        """Trials of the plan."""
        return self.cell_count * len(self.spec.seeds)

    def code(self) -> dict[str, dict[str, str]]:
        """Hashes of the modules behind each fingerprint of the plan's cells, by fingerprint and module."""
        pairs = {(cell.workload["name"], cell.mechanism["name"]) for group in self.groups for cell in group.cells}
        return dict(_code(_modules(workload, mechanism)) for workload, mechanism in pairs)

    def trials(self) -> Iterator[TrialAsked]:
        """Every trial, in plan order."""
        for group in self.groups:
            for seed in self.spec.seeds:
                for cell in group.cells:
                    yield cell, seed, trial_key(cell, seed)


def cell_row(shared: dict[str, object], mechanism: dict[str, object], code: str) -> CellRow:
    """The cell of `mechanism` (an identity) under what its group shares, with its digest."""
    identity = {**shared, "mechanism": mechanism, "code": code}
    digest = hashlib.sha256(canonical_json(identity).encode()).hexdigest()
    return CellRow(digest=digest, mechanism=mechanism, fingerprint=code, **shared)  # type: ignore[arg-type]


def trial_key(cell: CellRow, seed: int) -> str:
    """The key of the cell's trial with `seed`: 128 bits, in hexadecimal."""
    return hashlib.sha256(f"{cell.digest}:{seed}".encode()).hexdigest()[:32]


def code_fingerprint(workload: str, mechanism: str) -> str:
    """Fingerprint of all code that computes a trial of `mechanism` on `workload` (names)."""
    return _code(_modules(workload, mechanism))[0]


def _modules(workload: str, mechanism: str) -> tuple[str, ...]:
    implementations = (WORKLOADS.implementation(workload), MECHANISMS.implementation(mechanism))
    return (EVALUATOR, *(implementation.__module__ for implementation in implementations))


@cache
def _code(modules: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Fingerprint of the code of `modules`, and the hash of each module that it covers."""
    hashes = module_hashes(modules)
    return fingerprint(hashes), hashes
