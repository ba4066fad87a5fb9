"""What mechanisms cost: the time to build a memory from a stream, and to read one query, each measured alone.

Every repeat takes a new stream and visits the mechanisms in a new random order, so that a machine that slows down or
warms up favours none. A first, untimed round compiles and loads whatever is needed. Memory is measured by a last build
that is not timed, because watching allocations takes time of its own.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from models.config import MechanismConfig
from models.mechanism import Mechanism, stream_reader
from models.stream import KEY_BYTES, Floats, Stream, unit
from tasks.clock import Clock
from tasks.cost_batch import can_batch, time_batches, weigh_batches
from tasks.evaluate import Outcome, failure
from tasks.fitting import Fits, fit_key
from tasks.guard import Guarded, time_limit
from tasks.seeds import generator
from tasks.workload import Workload

READS = 64
"""Queries read in a row for one measurement of a read."""

Times = dict[str, list[float]]


def measure(
    workload: Workload[Any],
    mechanisms: Sequence[MechanismConfig],
    seed: int,
    episodes: int,
    dtype: str,
    timeout: float | None,
    fits: Fits,
) -> list[Outcome]:
    """Outcomes of the trials (workload, mechanism, seed), each over `episodes` repeats.

    Metrics are medians over repeats, with the interquartile range as `*_iqr`:
    build_us_per_token  microseconds a token to build the memory from the stream; `build_*_us_per_token`: by another way
    read_us_per_query   microseconds to answer one query from the memory's own state
    build_peak_bytes    most that numpy's arrays took at once while the memory was built, the stream left out
    build_64_us_per_token, read_64_us_per_query, build_64_peak_bytes
                        the same of 64 memories in one call, by memory as well (bytes: of all); and so on for each of
                        `tasks.cost_batch.BATCHES`, where memories are computed so and the stream is not too long
    waited              share of the measured time in which other work had the processor; it is counted nowhere else
    and `tokens`, `items`, `slots`, `bytes` (means). A mechanism that raises or is over its `timeout` fails alone.
    """
    trials = [_Trial(config, timeout, fits.get(fit_key(config, seed)) if fits else None) for config in mechanisms]
    for repeat in range(-1, episodes):
        stream = workload.stream(seed, max(repeat, 0))
        for index in generator(seed, "order", repeat + 1).permutation(len(trials)):
            draws = generator(seed, "mechanism", max(repeat, 0))
            trials[index].guard(trials[index].run, stream, draws, dtype, repeat >= 0)
            trials[index].guard(trials[index].run_batches, stream, (seed, max(repeat, 0)), dtype, repeat >= 0)
    for trial in trials:
        trial.guard(trial.weigh, stream, generator(seed, "mechanism", episodes - 1), dtype)
        trial.guard(trial.weigh_batches, stream, (seed, episodes - 1), dtype)
    return [trial.outcome() for trial in trials]


class TrialFailedError(Exception):
    """A trial that has failed with an outcome of its own."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


class Measured(Guarded):
    """One mechanism: its times and sizes over repeats, or the error that ended it."""

    def __init__(self, config: MechanismConfig, timeout: float | None) -> None:
        super().__init__(time_limit(timeout))
        self.config = config
        self.times: Times = defaultdict(list)
        self.sizes: Times = defaultdict(list)

    def outcome(self) -> Outcome:
        """Medians and ranges of the times, means of the sizes; or the failure."""
        if isinstance(self.error, TrialFailedError):
            return self.error.outcome
        if self.error is not None:
            return failure(self.error)
        metrics = {name: float(np.mean(values)) for name, values in self.sizes.items()}
        for name, values in self.times.items():
            low, middle, high = np.percentile(np.array(values) * 1e6, [25, 50, 75])
            metrics |= {name: float(middle), f"{name}_iqr": float(high - low)}
        return Outcome(metrics, seconds=self.seconds)


class _Trial(Measured):
    """One mechanism on a CPU."""

    def __init__(self, config: MechanismConfig, timeout: float | None, fitted: Any) -> None:
        super().__init__(config, timeout)
        self.fitted = fitted

    def run(self, stream: Stream, rng: np.random.Generator, dtype: str, timed: bool) -> None:
        """Build and read once."""
        memory = self._memory()
        times: Times = self.times if timed else defaultdict(list)
        with Clock() as clock:
            _time_builds(memory, stream, rng, dtype, clock, times)
            _time_reads(memory.reader(), stream, clock, times)
        if timed:
            self.sizes["waited"].append(clock.waited / clock.elapsed)
            self._note_size(memory, stream, dtype)

    def run_batches(self, stream: Stream, run: tuple[int, int], dtype: str, timed: bool) -> None:
        """Build and read many memories in one call, in the seed and repeat of `run`, where this is done."""
        if not can_batch(self.config, stream):
            return
        with Clock() as clock:

            def seconds(call: Callable[[], object]) -> float:
                with undisturbed():
                    clock.start()
                    call()
                    return clock.stop()

            found = list(
                time_batches(self.config, stream, dtype, lambda: generator(run[0], "mechanism", run[1]), seconds)
            )
        if timed:
            for name, value in found:
                self.times[name].append(value)

    def weigh_batches(self, stream: Stream, run: tuple[int, int], dtype: str) -> None:
        """Note the memory that building many memories in one call takes."""
        if can_batch(self.config, stream):
            for name, size in weigh_batches(self.config, stream, dtype, lambda: generator(run[0], "mechanism", run[1])):
                self.sizes[name].append(size)

    def weigh(self, stream: Stream, rng: np.random.Generator, dtype: str) -> None:
        """Build once more, and note the memory that this takes."""
        build = next(iter(self._memory().builds(stream, dtype, rng).values()))
        tracemalloc.start()
        try:
            build()
            self.sizes["build_peak_bytes"].append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()

    def _memory(self) -> Mechanism[Any]:
        memory: Mechanism[Any] = stream_reader(self.config.name)([self.config])
        if self.fitted is not None:
            memory.use(self.fitted)  # type: ignore[attr-defined]
        return memory

    def _note_size(self, memory: Mechanism[Any], stream: Stream, dtype: str) -> None:
        slots = int(memory.counts()[0])
        body, metadata = memory.bytes_per_slot(stream.dim, KEY_BYTES[dtype])
        sizes = {
            "tokens": stream.phases[-1].end,
            "items": stream.distinct,
            "slots": slots,
            "bytes": slots * float(np.mean(body + metadata)) + memory.bytes_fixed(),
        }
        for name, size in sizes.items():
            self.sizes[name].append(size)


def _time_builds(
    memory: Mechanism[Any], stream: Stream, rng: np.random.Generator, dtype: str, clock: Clock, times: Times
) -> None:
    """Time every way to build; the first, which `memory` is left with, comes last."""
    for name, build in reversed(memory.builds(stream, dtype, rng).items()):
        with undisturbed():
            clock.start()
            build()
            seconds = clock.stop()
        times[f"{name}_us_per_token"].append(seconds / stream.phases[-1].end)


def _time_reads(read: Callable[[Floats], int], stream: Stream, clock: Clock, times: Times) -> None:
    queries = unit(stream.phases[-1].queries)
    queries = queries[np.arange(READS) % len(queries)]
    with undisturbed():
        clock.start()
        for query in queries:
            read(query)
        seconds = clock.stop()
    times["read_us_per_query"].append(seconds / READS)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Without Python's garbage collector, whose pauses belong to nobody."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
