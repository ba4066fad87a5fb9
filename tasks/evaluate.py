"""Running memories over streams: many mechanisms and budgets read each stream once, each trial gets its own metrics.

A fused batch gives each trial the bits it would get alone: streams depend on the seed only, matrix products on the
stream only, and each memory's state on its own config only.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from models.attending import AttentionBlock
from models.config import MechanismConfig
from models.fixed_state import FixedSize
from models.long.stream import LongStream
from models.mechanism import MECHANISMS, Mechanism, Usage, stream_reader
from models.similarity import QueryBlock, Similarities
from models.stream import KEY_BYTES, Floats, Ints, Phase, Stream
from models.trained import Fitted, TrainedMechanism
from tasks.attention import AttentionScores
from tasks.fitting import Fits, fit_all, fit_key
from tasks.guard import Guarded, time_limit
from tasks.seeds import generator
from tasks.workload import Workload

TIMING_METRICS = frozenset(
    {
        "build_us_per_token",
        "read_us_per_query",
        "lines_per_second",
        "training_seconds",
        "training_tokens_per_second",
    }
)
"""Metrics that depend on the machine and the moment; every other metric is a function of the trial's key."""

SUMMED_METRICS = (
    "recall",
    "recall_all",
    "recall_credited",
    "abstained",
    "slots",
    "slots_peak",
    "slots_mean",
    "slots_phase_end",
    "bytes",
    "bytes_peak",
    "bytes_metadata",
    "chance",
    "tokens",
    "items",
)
"""Metrics averaged over episodes, in the order in which results show them.

recall           asked queries answered right; a memory that holds nothing abstains, which is wrong
recall_all       all queries answered right
recall_credited  recall with a guess, right with probability `chance`, where the memory abstained
abstained        queries that found the memory empty
slots, bytes     held after the last token; *_peak: the most held at once; slots_mean: over tokens;
                 slots_phase_end: over phase ends; bytes_metadata: the part of `bytes` that is neither key nor value
tokens, items    length of the stream, distinct items in it
"""

PHASE_SERIES = ("recall", "slots", "items", "tokens", "queries")
"""What is also kept phase by phase, as `phase_recall` and so on, where streams have several: recall of the phase's
queries, slots held at its end, the distinct items and the tokens read until then, and how many queries it asks; means
over episodes."""

UNUSED = np.random.default_rng(0)
"""Handed to mechanisms that draw nothing: making a generator costs as much as a small stream."""


@dataclass(frozen=True)
class Outcome:
    """What became of one trial: its metrics, or one reason why there are none, with a message for people.

    series: numbers that come in a row, such as recall phase by phase or a loss while it was trained; by name
    seconds: what the trial took by itself, of steps taken for several at once its share; None if nobody measured it.
        What is done once for all trials that share a stream is no part of it.
    """

    metrics: dict[str, float] | None
    reason: str | None = None
    message: str = ""
    series: dict[str, list[float]] = field(default_factory=dict)
    seconds: float | None = field(default=None, compare=False)


def evaluate(
    workload: Workload[Any],
    mechanisms: Sequence[MechanismConfig],
    seed: int,
    episodes: int,
    dtype: str,
    timeout: float | None = None,
    fits: Fits | None = None,
) -> list[Outcome]:
    """Outcomes of the trials (workload, mechanism, seed) for each of `mechanisms`, averaged over `episodes` streams.

    A mechanism that learns uses what `fits` says it has learned; one that is not in there is trained first, alone.
    A mechanism that raises, or takes more than `timeout` seconds, fails alone: the configs that ran beside it in one
    group are run again one by one. (A mechanism that never returns is for whoever watches this process.)
    """
    outcomes: list[Outcome | None] = [None] * len(mechanisms)
    long = workload.may_be_long and workload.is_long(workload.config)
    groups = _groups(mechanisms, dtype, timeout, long=long)
    for group in groups:
        group.guard(group.train, workload, seed, fits or {})
    for episode in range(episodes):
        whole = [group for group in groups if group.error is None]
        if long:
            from tasks.evaluate_long import run_long_episode

            run_long_episode(workload.long_stream(seed, episode), whole, seed, episode, dtype)
        else:
            _run_episode(workload.stream(seed, episode), whole, seed, episode, dtype)
    for group in groups:
        if group.error is None:
            results = [
                replace(checked(metrics, group.series(index, episodes)), seconds=group.seconds / len(group.members))
                for index, metrics in enumerate(group.metrics(episodes))
            ]
        elif len(group.members) > 1:
            alone = [evaluate(workload, [mechanisms[i]], seed, episodes, dtype, timeout, fits) for i in group.members]
            results = [outcome for [outcome] in alone]
        else:
            results = [failure(group.error)]
        for index, outcome in zip(group.members, results, strict=True):
            outcomes[index] = outcome
    return [outcome for outcome in outcomes if outcome is not None]


def _groups(mechanisms: Sequence[MechanismConfig], dtype: str, timeout: float | None, *, long: bool) -> list[Group]:
    """Mechanisms grouped so that each group runs in one kernel call."""
    of_kind = Group
    if long:
        from tasks.evaluate_long import LongGroup

        of_kind = LongGroup
    members: dict[tuple[Any, ...], list[int]] = {}
    for index, config in enumerate(mechanisms):
        implementation = MECHANISMS.implementation(config.name)
        members.setdefault((config.name, implementation.group_key(config)), []).append(index)
    return [
        of_kind(stream_reader(name)([mechanisms[i] for i in indices]), indices, KEY_BYTES[dtype], timeout)
        for (name, _), indices in members.items()
    ]


def _run_episode(stream: Stream, groups: Sequence[Group], seed: int, episode: int, dtype: str) -> None:
    similarities = Similarities(stream, dtype)
    compared = any(group.memory.compares(stream) for group in groups)
    for group in groups:
        group.guard(group.start, stream, seed, episode)
    for start, stop, phase in similarities.segments():
        began = time.perf_counter()
        if compared:
            similarities.rows(start, stop)
        shared = time.perf_counter() - began
        for group in groups:
            group.guard(group.write, similarities, start, stop, shared)
        if phase is not None:
            for group in groups:
                group.guard(group.begin_phase, similarities, phase)
            for block in _blocks(similarities, phase):
                for group in groups:
                    group.guard(group.read, block, phase)
            for group in groups:
                group.guard(group.end_phase, stream, phase)
    for group in groups:
        group.guard(group.finish, stream)


def _blocks(similarities: Similarities, phase: Phase) -> Iterator[QueryBlock]:
    """The queries of a phase; those of an attention layer with what its own products say."""
    attention = similarities.stream.attention
    for block in similarities.query_blocks(phase):
        if attention is None:
            yield block
        else:
            yield AttentionBlock(block, attention, similarities.stream.keys[: phase.end], phase.queries)


class Group(Guarded):
    """One mechanism object and the sums of its configs' measurements over episodes."""

    def __init__(self, memory: Mechanism[Any], members: list[int], key_bytes: int, timeout: float | None) -> None:
        super().__init__(time_limit(timeout, len(members)))
        self.memory = memory
        self.members = members
        self.key_bytes = key_bytes
        self.sums = {name: np.zeros(len(memory)) for name in SUMMED_METRICS}
        self.phase_sums: dict[tuple[str, int], Floats] = {}
        self.fitted = Fitted({}, {})
        self.build_seconds = self.read_seconds = 0.0
        self.tokens = self.queries = 0
        self.vectors: FixedSize[Any] | None = None
        self.attention = AttentionScores(len(memory))

    def train(self, workload: Workload[Any], seed: int, fits: Fits) -> None:
        """Give a memory that learns what it has learned, or let it learn now."""
        if isinstance(self.memory, TrainedMechanism):
            key = fit_key(self.memory.config, seed)
            fitted = fits[key] if key in fits else fit_all(workload, [self.memory.config], [seed])[key]
            if isinstance(fitted, Exception):
                raise fitted
            self.memory.use(fitted)
            self.fitted = fitted

    def start(self, stream: Stream, seed: int, episode: int) -> None:
        draws = UNUSED if self.memory.seed_free else generator(seed, "mechanism", episode)
        self.compares = self.memory.compares(stream)
        self.memory.start(stream, draws)
        self.vectors = None
        if isinstance(self.memory, FixedSize) and self.memory.writes_vectors and stream.value_width:
            assert stream.attention is not None
            assert stream.attention.values is not None
            self.vectors = self.memory.of_vectors(stream.attention.values)
            self.vectors.start(stream, UNUSED if self.memory.seed_free else generator(seed, "mechanism", episode))

    def write(self, similarities: Similarities, start: int, stop: int, shared: float) -> None:
        began = time.perf_counter()
        self.memory.write(similarities, start, stop)
        self.build_seconds += (time.perf_counter() - began) / len(self.memory)
        self.build_seconds += shared if self.compares else 0.0
        self.tokens += stop - start
        if self.vectors is not None:
            self.vectors.write(similarities, start, stop)

    def begin_phase(self, similarities: Similarities, phase: Phase) -> None:
        began = time.perf_counter()
        self.memory.settle(similarities, phase.end)
        self.build_seconds += (time.perf_counter() - began) / len(self.memory)
        self.right = np.empty((len(self.memory), len(phase.queries)))
        self.attention = AttentionScores(len(self.memory))
        if self.vectors is not None:
            self.vectors.settle(similarities, phase.end)

    def read(self, block: QueryBlock, phase: Phase) -> None:
        began = time.perf_counter()
        self.right[:, block.start : block.start + len(block)] = self.memory.answer(block, phase)
        self.read_seconds += (time.perf_counter() - began) / len(self.memory)
        self.queries += len(block)
        if isinstance(block, AttentionBlock):
            self.attention.note(self.memory, self.vectors, block, phase)

    def counts(self) -> Ints:
        """Slots in use [C], now."""
        return self.memory.counts()

    def usage(self) -> Usage:
        """Slots in use over the stream read so far."""
        return self.memory.usage()

    def extras(self) -> dict[str, Floats]:
        """Metrics of its own by name [C], of the stream that was read."""
        return self.memory.extras()

    def end_phase(self, stream: Stream | LongStream, phase: Phase) -> None:
        share = 1.0 / len(stream.phases)
        abstained = np.isnan(self.right)
        right = np.where(abstained, 0.0, self.right)
        asked = right[:, phase.asked].mean(axis=1)
        self.sums["recall"] += share * asked
        self.sums["recall_all"] += share * right.mean(axis=1)
        self.sums["recall_credited"] += share * (asked + stream.chance * abstained[:, phase.asked].mean(axis=1))
        self.sums["abstained"] += share * abstained.mean(axis=1)
        self.sums["slots_phase_end"] += share * self.counts()
        for name, values in self.attention.means(len(phase.queries)).items():
            self.sums[name] = self.sums.get(name, 0.0) + share * values
        if len(stream.phases) > 1:
            self._note_phase(stream, phase, asked)

    def _note_phase(self, stream: Stream | LongStream, phase: Phase, recall: Floats) -> None:
        number = [other.end for other in stream.phases].index(phase.end)
        values = (recall, self.counts(), stream.distinct_until(phase.end), phase.end, len(phase.answers))
        for name, value in zip(PHASE_SERIES, values, strict=True):
            total = self.phase_sums.setdefault((name, number), np.zeros(len(self.memory)))
            total += np.asarray(value, dtype=np.float64)

    def finish(self, stream: Stream | LongStream) -> None:
        slots, usage = self.counts(), self.usage()
        held = self.memory if self.vectors is None else self.vectors
        body, metadata = held.bytes_per_slot(stream.dim, self.key_bytes)
        self.sums["slots"] += slots
        self.sums["slots_peak"] += usage.peak
        self.sums["slots_mean"] += usage.held / stream.phases[-1].end
        self.sums["bytes"] += self.memory.bytes_fixed() + slots * (body + metadata)
        self.sums["bytes_peak"] += self.memory.bytes_fixed() + usage.peak * (body + metadata)
        self.sums["bytes_metadata"] += slots * metadata
        self.sums["chance"] += stream.chance
        self.sums["tokens"] += stream.phases[-1].end
        self.sums["items"] += stream.distinct
        for name, values in self.extras().items():
            self.sums[name] = self.sums.get(name, 0.0) + values

    def metrics(self, episodes: int) -> list[dict[str, float]]:
        """Means over `episodes`, and what training says of itself; one mapping a config."""
        timing = {
            "build_us_per_token": 1e6 * self.build_seconds / max(1, self.tokens),
            "read_us_per_query": 1e6 * self.read_seconds / max(1, self.queries),
        }
        if self.memory.reads_lines:
            timing["lines_per_second"] = self.tokens / self.build_seconds
        return [
            {name: float(total[index] / episodes) for name, total in self.sums.items()} | self.fitted.metrics | timing
            for index in range(len(self.memory))
        ]

    def series(self, index: int, episodes: int) -> dict[str, list[float]]:
        """What the config at `index` has phase by phase, and in the course of its training."""
        rows: dict[str, list[float]] = dict(self.fitted.series)
        for (name, _), total in self.phase_sums.items():
            rows.setdefault(f"phase_{name}", []).append(float(total[index] / episodes))
        return rows


def checked(metrics: dict[str, float], series: dict[str, list[float]]) -> Outcome:
    """The outcome of a trial with these `metrics`: `not_a_number` where one of them is not finite."""
    broken = sorted(name for name, value in metrics.items() if not math.isfinite(value))
    if broken:
        return Outcome(None, "not_a_number", f"not finite: {', '.join(broken)}")
    return Outcome(metrics, series=series)


def failure(error: Exception | SystemExit) -> Outcome:
    """The outcome of a trial whose code raised `error`, or left by `sys.exit`."""
    if isinstance(error, SystemExit) and not error.code:
        return Outcome(None, "no_result", "the trial's code exited without a result")
    if isinstance(error, TimeoutError):
        return Outcome(None, "timeout", str(error))
    if isinstance(error, FloatingPointError):
        return Outcome(None, "not_a_number", str(error))
    reason = "out_of_memory" if isinstance(error, MemoryError) else "user_error"
    return Outcome(None, reason, "".join(traceback.format_exception(error)).strip())
