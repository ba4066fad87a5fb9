"""What many memories of one mechanism cost that are computed in one call, as trials of a batch are on a CPU.

They read one stream, whose cosines they share, in the kernels that sweeps use: with B memories, a build is that of B
trials which differ in nothing but a threshold or a budget. (An accelerator reads many streams at once instead:
`tasks.cost_device`.)
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np

from models.config import MechanismConfig
from models.mechanism import MECHANISMS, Mechanism, stream_reader
from models.similarity import Similarities
from models.stream import Stream

BATCHES = (1, 4, 16, 64)
"""Memories in one call; on an accelerator, streams at once."""

MOST_TOKENS = 2048
"""Longest stream that they are measured on: all cosines between its tokens are computed for each call."""


def can_batch(config: MechanismConfig, stream: Stream) -> bool:
    """Whether several memories of `config`'s mechanism are computed in one call, and on this stream are measured so."""
    return bool(MECHANISMS.implementation(config.name).batch_over) and len(stream) <= MOST_TOKENS


class BatchedMemories:
    """`size` memories of one config, to be built from a stream and read in one call each."""

    def __init__(self, config: MechanismConfig, size: int) -> None:
        self._memory: Mechanism[MechanismConfig] = stream_reader(config.name)([config] * size)

    def build(self, stream: Stream, dtype: str, rng: np.random.Generator) -> None:
        """Read the whole of `stream`."""
        self._similarities = Similarities(stream, dtype)
        self._memory.start(stream, rng)
        for start, stop, phase in self._similarities.segments():
            if self._memory.compares(stream):
                self._similarities.rows(start, stop)
            self._memory.write(self._similarities, start, stop)
            if phase is not None:
                self._memory.settle(self._similarities, stop)

    def read(self, stream: Stream) -> int:
        """Answer all queries of the last phase; how many there are."""
        phase = stream.phases[-1]
        for block in self._similarities.query_blocks(phase):
            self._memory.answer(block, phase)
        return len(phase.queries)


def time_batches(
    config: MechanismConfig,
    stream: Stream,
    dtype: str,
    draws: Callable[[], np.random.Generator],
    timed: Callable[[Callable[[], object]], float],
) -> Iterator[tuple[str, float]]:
    """Names of metrics with seconds, of a build by token and memory, of a read by query and memory, for all BATCHES.

    timed: seconds that a call takes
    """
    for size in BATCHES:
        memories, rng = BatchedMemories(config, size), draws()
        seconds = timed(lambda memories=memories, rng=rng: memories.build(stream, dtype, rng))  # type: ignore[misc]
        yield f"build_{size}_us_per_token", seconds / (size * stream.phases[-1].end)
        seconds = timed(lambda memories=memories: memories.read(stream))  # type: ignore[misc]
        yield f"read_{size}_us_per_query", seconds / (size * len(stream.phases[-1].queries))


def weigh_batches(
    config: MechanismConfig, stream: Stream, dtype: str, draws: Callable[[], np.random.Generator]
) -> Iterator[tuple[str, float]]:
    """Names of metrics with the most bytes that numpy's arrays take while a batch is built, for each of BATCHES."""
    for size in BATCHES:
        memories, rng = BatchedMemories(config, size), draws()
        tracemalloc.start()
        try:
            memories.build(stream, dtype, rng)
            yield f"build_{size}_peak_bytes", float(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
