"""What a spec says once it has been read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from models.config import MechanismConfig
from models.devices.device import DeviceClass
from orchestrator.caps import UNCAPPED, Caps
from orchestrator.spec.entries import Entry
from tasks.devices import AskedDevice
from tasks.kind import KindConfig
from tasks.kinds.tuning import TuningConfig
from tasks.sequential import SeedsUntil
from tasks.workload import WorkloadConfig


@dataclass(frozen=True)
class Policy:
    """How a sweep is run, which changes no result.

    priority    of several queued sweeps the highest runs first
    stop_after  failed trials after which the sweep stops; None: it carries on
    timeout     most seconds a trial may take; None: any
    infrastructure_retries, code_retries   tries of a trial after its first, by kind of failure
    accelerator  model of GPU that trials on cuda or mps need; None: any
    wait        minutes that trials may wait for workers that can take them
    caps        what it may take of its workers before it is paused
    """

    priority: int = 0
    stop_after: int | None = None
    timeout: float | None = None
    infrastructure_retries: int = 3
    code_retries: int = 0
    accelerator: str | None = None
    wait: float = 0.0
    caps: Caps = UNCAPPED

    @classmethod
    def saved(cls, tree: Mapping[str, Any]) -> Policy:
        """The policy that was saved with a sweep; older ones have no caps."""
        return cls(**{**tree, "caps": Caps(**tree.get("caps", {}))})


@dataclass(frozen=True)
class Taken:
    """What the studies of a sweep may take of an earlier one, as that was when this one was submitted.

    sweep    the earlier one's id
    made     proposals of each of its studies
    without  (study, number) of those among them that had no result
    """

    sweep: str
    made: tuple[int, ...]
    without: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Spec:
    """A valid spec. Configs are made on demand, in file order, first axis slowest, every combination exactly once.

    options   of the job type; None: it has none
    seeds     where seeds are added `until` something holds, those of the first stage
    device    as written: `cpu`, `cuda`, `mps`, `any`, or several of them
    episodes  None: each workload's own default
    plugins   module names, and absolute paths of files
    text      the file as it was read; `overrides` came on top of it
    path      where it was read from, None for text
    taken     pinned at submission: what studies with `warm_start` begin with
    """

    name: str
    kind: str
    workload_entries: tuple[Entry, ...]
    mechanism_entries: tuple[Entry, ...]
    seeds: tuple[int, ...]
    device: AskedDevice | tuple[DeviceClass, ...] = "any"
    dtype: str = "float32"
    episodes: int | None = None
    description: str | None = None
    plugins: tuple[str, ...] = ()
    policy: Policy = Policy()
    text: str = ""
    overrides: tuple[str, ...] = ()
    path: str | None = None
    options: KindConfig | None = None
    until: SeedsUntil | None = None
    taken: Taken | None = None

    def workloads(self) -> Iterator[WorkloadConfig]:
        """Every workload config."""
        return (cast("WorkloadConfig", config) for entry in self.workload_entries for config in entry.configs())

    def mechanism_configs(self) -> Iterator[MechanismConfig]:
        """Every mechanism config."""
        return (cast("MechanismConfig", config) for entry in self.mechanism_entries for config in entry.configs())

    @property
    def held_out(self) -> tuple[int, ...]:
        """Seeds on which nothing is chosen: those after the largest, where the job type has any."""
        count = self.options.held_out if isinstance(self.options, TuningConfig) else 0
        last = max(self.seeds)
        return tuple(range(last + 1, last + 1 + count))

    @property
    def devices(self) -> tuple[AskedDevice, ...]:
        """What every trial is made for: one device class, several, or `any`."""
        return self.device if isinstance(self.device, tuple) else (self.device,)

    @property
    def cells(self) -> int:
        """Number of (workload config, mechanism config, device class) triples."""
        workloads = sum(map(len, self.workload_entries))
        mechanisms = sum(map(len, self.mechanism_entries))
        return workloads * mechanisms * len(self.devices)

    @property
    def trials(self) -> int:
        """Number of trials: cells times seeds."""
        return self.cells * len(self.seeds)
