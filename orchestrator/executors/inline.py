"""Everything in this process, one batch at a time: for debuggers, for tests, and where Ray is not wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.errors import PreparationError
from orchestrator.executors.base import Event, Finished, Lost
from orchestrator.kernel_cache import use_kernel_cache
from workers.batch import BatchTask
from workers.host import Preparation, WorkerCard, WorkerHost


class InlineExecutor:
    """One worker, which is this process."""

    name = "inline"
    depth = 1

    def __init__(self, preparation: Preparation, kernels: Path) -> None:
        self._preparation = preparation
        self._kernels = kernels
        self._tasks: deque[BatchTask] = deque()

    def start(self, given_up: Callable[[], bool]) -> Sequence[WorkerCard]:
        use_kernel_cache(self._kernels)
        try:
            self._host = WorkerHost(self._preparation)
        except Exception as error:
            raise PreparationError(f"{type(error).__name__}: {error}") from error
        return [self._host.card]

    def submit(self, worker: str, task: BatchTask) -> None:
        self._tasks.append(task)

    def wait(self, seconds: float) -> list[Event]:
        return [Finished(self._host.card.id, self._host.run(self._tasks.popleft()))] if self._tasks else []

    def kill(self, worker: str) -> Lost:
        return Lost(worker, self.dismiss(worker), "dropped")

    def dismiss(self, worker: str) -> tuple[int, ...]:
        attempts = tuple(task.attempt for task in self._tasks)
        self._tasks.clear()
        return attempts

    def replace(self, worker: str) -> WorkerCard | None:
        return None

    def stop(self) -> None:
        self._tasks.clear()
