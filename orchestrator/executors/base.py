"""The seam between the scheduler and whatever runs batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from models.devices.device import DeviceClass
from orchestrator.fleet import Demand, Want
from workers.batch import BatchReport, BatchTask
from workers.host import WorkerCard


@dataclass(frozen=True)
class Finished:
    """A worker sent back a batch."""

    worker: str
    report: BatchReport


@dataclass(frozen=True)
class Lost:
    """A worker is gone, and with it every batch it held (attempt ids), for `reason`; `log` is what it wrote last."""

    worker: str
    attempts: tuple[int, ...]
    message: str
    reason: str = "worker_lost"
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class Joined:
    """A worker is ready that was not there at the start."""

    card: WorkerCard


@dataclass(frozen=True)
class Leaving:
    """A worker's node is about to go: it may finish what it holds, and gets nothing new."""

    worker: str
    message: str


@dataclass(frozen=True)
class Refused:
    """A worker for a device class could not be started; the place is not tried again."""

    device: DeviceClass
    message: str


@dataclass(frozen=True)
class Shortage:
    """Why trials find no worker.

    absent   nothing in the fleet could take them, now or after a wait for its turn
    devices  the classes that are short
    """

    why: str
    absent: bool
    devices: frozenset[DeviceClass]


Event = Finished | Lost | Joined | Leaving | Refused


class Executor(Protocol):
    """Runs batches on workers. Calls come from one thread."""

    name: str
    depth: int
    """Batches a worker should hold at once, so that it never waits for the next one."""

    scales: bool
    """Whether machines come and go with the work: then a worker that has none is let go, as it keeps its machine."""

    def start(self, wants: AbstractSet[Want], given_up: Callable[[], bool]) -> Sequence[WorkerCard]:
        """Prepare, and start workers for `wants`; those that are ready. Others come through `wait`.

        Raises ExecutorError; that no place is to be had for `wants` is no error. May be called again after `stop`. As
        soon as `given_up` returns true it stops starting, and returns those that are there, or none.
        """
        ...

    def grow(self, wants: AbstractSet[Want], waiting: Mapping[Want, int]) -> None:
        """Look after the fleet: start workers for `wants` on nodes that joined, notice nodes that leave or are gone.

        Where it scales, no more are started than batches wait, and machines are asked for where that is not enough.
        waiting: batches beside those that workers hold, by what could run them, as far as they were counted
        """
        ...

    def shortage(self, demands: AbstractSet[Demand]) -> Shortage | None:
        """Why there is no worker for some of `demands`, none being started either; None if there is."""
        ...

    def rivals(self, worker: str) -> AbstractSet[str]:
        """Workers that must hold nothing while `worker` computes."""
        ...

    def submit(self, worker: str, task: BatchTask) -> None:
        """Hand `task` to `worker`; the outcome arrives through `wait`."""
        ...

    def wait(self, seconds: float) -> list[Event]:
        """Events since the last call, waiting up to `seconds` for the first."""
        ...

    def kill(self, worker: str) -> Lost:
        """End a worker at once, whatever it does; the batches it held."""
        ...

    def dismiss(self, worker: str, *, for_good: bool = True) -> tuple[int, ...]:
        """End a worker without a replacement, unless not `for_good` until there is work for one; what it held."""
        ...

    def replace(self, worker: str) -> WorkerCard | None:
        """A new worker in place of a lost one; None if there can be none."""
        ...

    def stop(self) -> None:
        """End every worker and whatever was started for them."""
        ...
