"""Workers that compute nothing but take given times, fail and get lost as a seed says, on a clock that skips idleness.

They stand behind the executor's seam, so that the scheduler and the store are the real ones.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass

from orchestrator.executors.base import Event, Finished, Lost, Shortage
from orchestrator.fleet import Demand, Want
from tasks.evaluate import Outcome
from workers.batch import BatchReport, BatchTask, TrialReport
from workers.host import WorkerCard

METRICS = ("recall", "recall_all", "chance", "slots", "slots_peak", "slots_mean", "bytes", "similarity")
RECORD = {"cpu_model": "simulated", "cores": 1, "threads": 1, "ram_bytes": 2**33, "os": "none", "gpu": "none"}


@dataclass(frozen=True)
class Behaviour:
    """What workers do; what happens to a batch follows from `seed` and its trials alone.

    seconds  a batch takes on average: at least half of it; one in a hundred takes 2.8 times as long
    failing  share of trials that fail on their own, at every try
    lost     share of batches with which their worker goes
    """

    seconds: float
    failing: float = 0.0
    lost: float = 0.0
    seed: int = 0

    def fails(self, trial: int) -> bool:
        """Whether a trial (a row) fails on its own."""
        return _draw(self.seed, trial, 0) < self.failing


class SkippingClock:
    """Real time, except that nobody waits for what is to come: the time until then is skipped."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def now(self) -> float:
        """Seconds on this clock."""
        return time.monotonic() + self._skipped

    def skip_to(self, moment: float) -> None:
        """Let it be `moment` at least."""
        self._skipped += max(0.0, moment - self.now())


class SimulatedFleet:
    """An executor with as many workers as wanted, each of which runs what it holds one after the other.

    own_seconds, own_cpu_seconds  what the simulation itself took
    busy_seconds                  what all workers together computed, on the clock
    on_first_batch                called before a worker is handed the first one
    """

    name = "simulated"
    depth = 2
    scales = False

    def __init__(self, workers: int, behaviour: Behaviour) -> None:
        self.clock = SkippingClock()
        self.own_seconds = self.own_cpu_seconds = self.busy_seconds = 0.0
        self.batches = self.lost = 0
        self.on_first_batch: Callable[[], None] | None = None
        self._behaviour = behaviour
        self._names = map("worker-{}".format, itertools.count())
        self._held: dict[str, deque[BatchTask]] = {next(self._names): deque() for _ in range(workers)}
        self._ends: list[tuple[float, int, str]] = []
        self._tries: dict[int, int] = {}

    def start(self, wants: AbstractSet[Want], given_up: Callable[[], bool]) -> Sequence[WorkerCard]:
        return [_card(worker) for worker in self._held]

    def grow(self, wants: AbstractSet[Want], waiting: Mapping[Want, int]) -> None:
        """Nobody joins, nobody leaves."""

    def shortage(self, demands: AbstractSet[Demand]) -> Shortage | None:
        return None

    def rivals(self, worker: str) -> AbstractSet[str]:
        return frozenset()

    def submit(self, worker: str, task: BatchTask) -> None:
        if self.on_first_batch is not None:
            self.on_first_batch()
            self.on_first_batch = None
        with self._by_itself():
            self._held[worker].append(task)
            if len(self._held[worker]) == 1:
                self._begin(worker, task, self.clock.now())

    @contextmanager
    def _by_itself(self) -> Iterator[None]:
        began, cpu = time.perf_counter(), time.thread_time()
        yield
        self.own_seconds += time.perf_counter() - began
        self.own_cpu_seconds += time.thread_time() - cpu

    def _begin(self, worker: str, task: BatchTask, now: float) -> None:
        seconds = self._behaviour.seconds * _spread(_draw(self._behaviour.seed, task.trials[0][0], 1))
        self.busy_seconds += seconds
        heapq.heappush(self._ends, (now + seconds, task.attempt, worker))

    def wait(self, seconds: float) -> list[Event]:
        events: list[Event] = []
        with self._by_itself():
            if seconds and self._ends:
                self.clock.skip_to(self._ends[0][0])
            now = self.clock.now()
            while self._ends and self._ends[0][0] <= now:
                ended, attempt, worker = heapq.heappop(self._ends)
                held = self._held.get(worker)
                if held and held[0].attempt == attempt:  # else the worker was dismissed meanwhile
                    events.append(self._end(worker, held, ended))
        return events

    def _end(self, worker: str, held: deque[BatchTask], now: float) -> Event:
        self.batches += 1
        first = held[0].trials[0][0]
        if _draw(self._behaviour.seed, first, 2 + self._tries.get(first, 0)) < self._behaviour.lost:
            self._tries[first] = self._tries.get(first, 0) + 1
            self.lost += 1
            return self.kill(worker)
        task = held.popleft()
        if held:
            self._begin(worker, held[0], now)
        return Finished(worker, BatchReport(task.attempt, tuple(self._report(trial) for trial, _, _ in task.trials)))

    def _report(self, trial: int) -> TrialReport:
        outcome = (
            Outcome(None, "user_error", "it fails, as it was told to")
            if self._behaviour.fails(trial)
            else Outcome(dict.fromkeys(METRICS, _draw(self._behaviour.seed, trial, 0)))
        )
        now = time.time()
        return TrialReport(trial, outcome, now, now, 0.01, 0.01, 2**28, own_seconds=0.005)

    def kill(self, worker: str) -> Lost:
        return Lost(worker, self.dismiss(worker), "it went, as it was told to")

    def dismiss(self, worker: str, *, for_good: bool = True) -> tuple[int, ...]:
        return tuple(task.attempt for task in self._held.pop(worker, ()))

    def replace(self, worker: str) -> WorkerCard | None:
        name = next(self._names)
        self._held[name] = deque()
        return _card(name)

    def stop(self) -> None:
        self._held.clear()


def _card(worker: str) -> WorkerCard:
    return WorkerCard(worker, "cpu", 1, "simulated", RECORD)


def _draw(seed: int, trial: int, stream: int) -> float:
    """A number from 0 to 1 that follows from the arguments alone (splitmix64)."""
    mixed = (seed * 0xD1342543DE82EF95 + trial * 0x9E3779B97F4A7C15 + stream * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return (mixed ^ (mixed >> 31)) / 2**64


def _spread(draw: float) -> float:
    """A duration with mean 1 from a number from 0 to 1: at least 0.5, beyond that exponential, at most 5.5."""
    return min(5.5, 0.5 - 0.5 * math.log(max(draw, 1e-9)))
