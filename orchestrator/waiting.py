"""A sweep's batches that wait, handed out in plan order to workers of the device classes that can run them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

from models.devices.device import DeviceClass
from orchestrator.batching import Batch
from orchestrator.store.records import Pending

Classes = frozenset[DeviceClass]


class WaitingBatches:
    """Reads batches as workers ask for them; those that a worker cannot run are set aside for others.

    able: the device classes that can run a cell's trials
    """

    def __init__(self, read: Callable[[], Iterator[Batch]], able: Callable[[int], Classes]) -> None:
        self._read = read
        self._able = able
        self._urgent: deque[Batch] = deque()
        self.start_over()

    def start_over(self) -> None:
        """Read from the beginning again: some batches were given back, or added."""
        self._unread = self._read()
        self._aside: dict[Classes, deque[Batch]] = {}

    def hasten(self, batch: Batch) -> None:
        """Hand out `batch` before everything else."""
        self._urgent.append(batch)

    @property
    def set_aside(self) -> set[Classes]:
        """Classes that batches wait for which were read and could not be handed out."""
        return {classes for classes, batches in self._aside.items() if batches}

    def next(self, device: DeviceClass) -> Batch | None:
        """The next batch for a worker of class `device`; None if there is none right now."""
        for index, batch in enumerate(self._urgent):
            if all(device in self._able(trial.cell) for trial in batch.trials):
                del self._urgent[index]
                return batch
        for classes, batches in self._aside.items():
            if device in classes and batches:
                return batches.popleft()
        return next(filter(None, (self._divide(batch, device) for batch in self._unread)), None)

    def _divide(self, batch: Batch, device: DeviceClass) -> Batch | None:
        """What of `batch` a worker can run, which shares streams; the rest is set aside."""
        mine: list[Pending] = []
        others: dict[Classes, list[Pending]] = {}
        for trial in batch.trials:
            classes = self._able(trial.cell)
            (mine if device in classes else others.setdefault(classes, [])).append(trial)
        for classes, trials in others.items():
            self._aside.setdefault(classes, deque()).append(replace(batch, trials=tuple(trials)))
        if not others:
            return batch
        return replace(batch, trials=tuple(mine)) if mine else None
