"""A sweep's batches that wait, handed out in plan order to workers that can run them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import chain

from orchestrator.batching import Batch
from orchestrator.fleet import Demand, Want
from orchestrator.store.records import Pending


class WaitingBatches:
    """Reads batches as workers ask for them; those that a worker cannot run are set aside for others.

    demand: which workers can run a cell's trials
    """

    def __init__(self, read: Callable[[], Iterator[Batch]], demand: Callable[[int], Demand]) -> None:
        self._read = read
        self._demand = demand
        self._urgent: deque[Batch] = deque()
        self._added: deque[Batch] = deque()
        self.start_over()

    def start_over(self) -> None:
        """Read from the beginning again: some batches were given back, or added."""
        self._unread = self._read()
        self._ahead: deque[Batch] = deque()
        self._added.clear()  # they are among the unread
        self._aside: dict[Demand, deque[Batch]] = {}

    def hasten(self, batch: Batch) -> None:
        """Hand out `batch` before everything else."""
        self._urgent.append(batch)

    def add(self, batches: Iterable[Batch]) -> None:
        """Hand out `batches`, which have just been added to the sweep, after those that are there."""
        self._added.extend(batches)

    @property
    def set_aside(self) -> set[Demand]:
        """What batches wait for which were read and not handed out."""
        read = chain(self._urgent, self._ahead)
        found = {self._demand(trial.cell) for batch in read for trial in batch.trials}
        return found | {demand for demand, batches in self._aside.items() if batches}

    def count(self, want: Want, most: int) -> int:
        """How many batches wait that a worker for `want` can run, at least in part; `most` if there are more."""
        found = sum(len(batches) for demand, batches in self._aside.items() if want in demand)
        found += sum(self._is_for(want, batch) for batch in chain(self._urgent, self._ahead))
        while found < most and (batch := self._read_on()) is not None:
            self._ahead.append(batch)
            found += self._is_for(want, batch)
        return min(found, most)

    def _is_for(self, want: Want, batch: Batch) -> bool:
        return any(want in self._demand(trial.cell) for trial in batch.trials)

    def next(self, worker: Want) -> Batch | None:
        """The next batch for a worker, given as the class, model and machine that it is; None if there is none now."""
        able = cache(partial(_met_by, worker))
        for index, batch in enumerate(self._urgent):
            if all(able(self._demand(trial.cell)) for trial in batch.trials):
                del self._urgent[index]
                return batch
        for demand, batches in self._aside.items():
            if batches and able(demand):
                return batches.popleft()
        left = iter(self._next_left, None)
        return next(filter(None, (self._divide(batch, able) for batch in left)), None)

    def _next_left(self) -> Batch | None:
        return self._ahead.popleft() if self._ahead else self._read_on()

    def _read_on(self) -> Batch | None:
        return next(self._unread, None) or (self._added.popleft() if self._added else None)

    def _divide(self, batch: Batch, able: Callable[[Demand], bool]) -> Batch | None:
        """What of `batch` a worker can run, which shares streams; the rest is set aside."""
        mine: list[Pending] = []
        others: dict[Demand, list[Pending]] = {}
        for trial in batch.trials:
            demand = self._demand(trial.cell)
            (mine if able(demand) else others.setdefault(demand, [])).append(trial)
        for demand, trials in others.items():
            self._aside.setdefault(demand, deque()).append(replace(batch, trials=tuple(trials)))
        if not others:
            return batch
        return replace(batch, trials=tuple(mine)) if mine else None


def _met_by(worker: Want, demand: Demand) -> bool:
    return any(want.met_by([worker]) for want in demand)
