"""Running memories over streams longer than memory: chunk by chunk, so that no more is held than the memories hold."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from models.long.memory import LongMemory
from models.long.stream import LongStream
from models.mechanism import MECHANISMS, Usage
from models.stream import Floats, Ints, Phase, StreamError, round_keys, unit
from tasks.evaluate import UNUSED, Group
from tasks.fitting import Fits
from tasks.seeds import generator
from tasks.workload import LONGEST_STREAM, Workload

CHUNK_TOKENS = 4096
"""Tokens made and read at once: their keys take a few megabytes. What is decided does not depend on it."""


def run_long_episode(stream: LongStream, groups: Sequence[Group], seed: int, episode: int, dtype: str) -> None:
    """Let `groups` read `stream` and answer its queries; what they measure is added to theirs."""
    reading = [group for group in groups if isinstance(group, LongGroup)]
    for group in reading:
        group.guard(group.begin, stream, seed, episode)
    for chunk, phase in stream.chunks(CHUNK_TOKENS):
        keys = unit(round_keys(chunk.keys, dtype))
        for group in reading:
            group.guard(group.take, keys, chunk.values)
        if phase is not None:
            queries = unit(phase.queries)
            for group in reading:
                group.guard(group.ask, queries, phase)
                group.guard(group.end_phase, stream, phase)
    for group in reading:
        group.guard(group.finish, stream)


class LongGroup(Group):
    """Configs of one mechanism that read in chunks, measured as those that read in memory."""

    reader: LongMemory[Any]

    def train(self, workload: Workload[Any], seed: int, fits: Fits) -> None:
        """Refuse mechanisms that cannot read in chunks; none of those that learn do."""
        if not self.memory.reads_long:
            raise StreamError(unread(self.memory.config.name))

    def begin(self, stream: LongStream, seed: int, episode: int) -> None:
        """Forget everything and prepare for `stream`."""
        draws = UNUSED if self.memory.seed_free else generator(seed, "mechanism", episode)
        self.reader = self.memory.long(stream, draws)

    def take(self, keys: Floats, values: Ints) -> None:
        """Read the next tokens: unit keys [n, d] and values [n]."""
        began = time.perf_counter()
        self.reader.read(keys, values)
        self.build_seconds += (time.perf_counter() - began) / len(self.memory)
        self.tokens += len(keys)

    def ask(self, queries: Floats, phase: Phase) -> None:
        """Answer the queries of a phase, unit keys [Q, d]."""
        began = time.perf_counter()
        self.reader.settle()
        settled = time.perf_counter()
        self.right = self.reader.answer(queries, phase.answers) if len(queries) else np.empty((len(self.memory), 0))
        self.build_seconds += (settled - began) / len(self.memory)
        self.read_seconds += (time.perf_counter() - settled) / len(self.memory)
        self.queries += len(queries)

    def counts(self) -> Ints:
        return self.reader.counts()

    def usage(self) -> Usage:
        return self.reader.usage()

    def extras(self) -> dict[str, Floats]:
        """None: what a memory counts of its own it does not count in chunks."""
        return {}


def unread(name: str) -> str:
    """What to say of a mechanism that cannot read streams in chunks."""
    able = ", ".join(known for known, _, one in MECHANISMS if one.reads_long)
    return (
        f"`{name}` holds or compares all tokens, and streams of more than {LONGEST_STREAM:,} are read in chunks: set "
        f"the workload's `events`, or take one of {able}"
    )
