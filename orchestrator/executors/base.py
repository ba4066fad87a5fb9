"""The seam between the scheduler and whatever runs batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

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


Event = Finished | Lost


class Executor(Protocol):
    """Runs batches on workers. Calls come from one thread."""

    name: str
    depth: int
    """Batches a worker should hold at once, so that it never waits for the next one."""

    def start(self, given_up: Callable[[], bool]) -> Sequence[WorkerCard]:
        """Prepare and start the workers. Raises ExecutorError. May be called again after `stop`.

        As soon as `given_up` returns true it stops starting, and returns those that are there, or none.
        """
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

    def dismiss(self, worker: str) -> tuple[int, ...]:
        """End a worker for good, without a replacement; the attempts it held."""
        ...

    def replace(self, worker: str) -> WorkerCard | None:
        """A new worker in place of a lost one; None if there can be none."""
        ...

    def stop(self) -> None:
        """End every worker and whatever was started for them."""
        ...
