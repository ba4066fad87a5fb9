"""What mechanisms cost: the time to build a memory from a stream, and to read one query, each measured alone.

Every repeat takes a new stream and visits the mechanisms in a new random order, so that a machine that slows down or
warms up favours none. A first, untimed round compiles and loads whatever is needed.
"""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from models.config import MechanismConfig
from models.mechanism import MECHANISMS, Mechanism
from models.stream import KEY_BYTES, Floats, Stream, unit
from tasks.evaluate import Outcome, failure
from tasks.fitting import Fits, fit_key
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
    and `tokens`, `items`, `slots`, `bytes` (means). A mechanism that raises or is over its `timeout` fails alone.
    """
    trials = [_Trial(config, timeout, fits.get(fit_key(config, seed)) if fits else None) for config in mechanisms]
    for repeat in range(-1, episodes):
        stream = workload.stream(seed, max(repeat, 0))
        for index in generator(seed, "order", repeat + 1).permutation(len(trials)):
            trials[index].run(stream, seed, max(repeat, 0), dtype, timed=repeat >= 0)
    return [trial.outcome() for trial in trials]


class _Trial:
    """One mechanism: its times and sizes over repeats, or the error that ended it."""

    def __init__(self, config: MechanismConfig, timeout: float | None, fitted: Any) -> None:
        self.config = config
        self.seconds_left = timeout
        self.fitted = fitted
        self.error: Exception | SystemExit | None = None
        self.times: Times = defaultdict(list)
        self.sizes: Times = defaultdict(list)

    def run(self, stream: Stream, seed: int, repeat: int, dtype: str, *, timed: bool) -> None:
        """Build and read once, unless this trial has failed."""
        if self.error is not None:
            return
        began = time.perf_counter()
        times = self.times if timed else defaultdict(list)
        try:
            memory: Mechanism[Any] = MECHANISMS.implementation(self.config.name)([self.config])
            if self.fitted is not None:
                memory.use(self.fitted)  # type: ignore[attr-defined]
            _time_builds(memory, stream, generator(seed, "mechanism", repeat), dtype, times)
            _time_reads(memory.reader(), stream, times)
            if timed:
                self._note_size(memory, stream, dtype)
        except (Exception, SystemExit) as error:
            self.error = error
        if self.seconds_left is not None:
            self.seconds_left -= time.perf_counter() - began
            if self.seconds_left < 0 and self.error is None:
                self.error = TimeoutError("the trial took longer than its time limit")

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

    def outcome(self) -> Outcome:
        """Medians and ranges of the times, means of the sizes; or the failure."""
        if self.error is not None:
            return failure(self.error)
        metrics = {name: float(np.mean(values)) for name, values in self.sizes.items()}
        for name, values in self.times.items():
            low, middle, high = np.percentile(np.array(values) * 1e6, [25, 50, 75])
            metrics |= {name: float(middle), f"{name}_iqr": float(high - low)}
        return Outcome(metrics)


def _time_builds(memory: Mechanism[Any], stream: Stream, rng: np.random.Generator, dtype: str, times: Times) -> None:
    """Time every way to build; the first, which `memory` is left with, comes last."""
    for name, build in reversed(memory.builds(stream, dtype, rng).items()):
        with _undisturbed():
            began = time.perf_counter()
            build()
            seconds = time.perf_counter() - began
        times[f"{name}_us_per_token"].append(seconds / stream.phases[-1].end)


def _time_reads(read: Callable[[Floats], int], stream: Stream, times: Times) -> None:
    queries = unit(stream.phases[-1].queries)
    queries = queries[np.arange(READS) % len(queries)]
    with _undisturbed():
        began = time.perf_counter()
        for query in queries:
            read(query)
        seconds = time.perf_counter() - began
    times["read_us_per_query"].append(seconds / READS)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Without Python's garbage collector, whose pauses belong to nobody."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
