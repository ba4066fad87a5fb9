"""Running memories on a device: many streams, seeds, mechanisms and budgets at once, each trial with its own metrics.

The metrics are those of `tasks.evaluate`. A trial gets the decisions that it gets alone, and those of the CPU, wherever
the float64 reference takes them by more than `models.devices.device.AGREED`; what is near a tie may fall either way.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from models.config import MechanismConfig
from models.devices.device import (
    DeviceClass,
    batch_memory,
    full_precision,
    out_of_memory,
    precision,
    release_memory,
    require,
    synchronise,
)
from models.devices.form import DEVICE_FORMS, DeviceForm, Questions, objection
from models.devices.stream_batch import BLOCK_ELEMENTS, ROW_TOKENS, BatchPhase, Layout, StreamBatch, layout
from models.mechanism import MECHANISMS, stream_reader
from models.stream import KEY_BYTES, Floats, Phase, Stream
from tasks.evaluate import PHASE_SERIES, SUMMED_METRICS, UNUSED, Outcome, checked, evaluate, failure
from tasks.fitting import Fits, fit_all, fit_key
from tasks.guard import Guarded, time_limit
from tasks.seeds import generator
from tasks.workload import Workload

if TYPE_CHECKING:
    from torch import Tensor

Run = tuple[int, int]
"""The seed and the episode of a stream."""


LEAST_ROWS = 64
"""Tokens in a block of rows that launching kernels costs little beside; more streams at once would leave fewer."""


class UnsupportedError(ValueError):
    """Mechanisms that cannot run on a device, each with the reason."""


def evaluate_on(
    device: DeviceClass,
    workload: Workload[Any],
    mechanisms: Sequence[MechanismConfig],
    seeds: Sequence[int],
    episodes: int,
    dtype: str,
    timeout: float | None = None,
    fits: Fits | None = None,
) -> list[list[Outcome]]:
    """Outcomes of the trials (workload, mechanism, seed) on `device`: one list a seed, with one outcome a mechanism.

    `cpu` runs the very same torch code as cuda and mps do, for tests; `tasks.evaluate` is faster there. As many streams
    run at once as the device's memory holds, fewer where it proves too little. A mechanism that raises, or takes more
    than `timeout` seconds a trial, fails alone. Times are a batch's seconds over its tokens and trials.

    Raises DeviceError where this machine lacks the device, and UnsupportedError, before anything runs, where a
    mechanism has no form on it, or where the CPU alone reads the streams.
    """
    require(device)
    precision(device, dtype)
    objections = (workload.cpu_alone(workload.config), *(objection(config, device) for config in mechanisms))
    reasons = dict.fromkeys(reason for reason in objections if reason is not None)
    if reasons:
        raise UnsupportedError("; ".join(reasons))
    outcomes: list[list[Outcome | None]] = [[None] * len(mechanisms) for _ in seeds]
    learned = [index for index, config in enumerate(mechanisms) if config.name not in DEVICE_FORMS]
    others = [index for index, config in enumerate(mechanisms) if config.name in DEVICE_FORMS]
    _scatter(
        _evaluate_learned(device, workload, [mechanisms[i] for i in learned], seeds, episodes, dtype, timeout, fits),
        learned,
        outcomes,
    )
    with full_precision():
        sweep = _Sweep(device, workload, [mechanisms[i] for i in others], seeds, episodes, dtype, timeout)
        _scatter(sweep.run(), others, outcomes)
    return [[outcome for outcome in row if outcome is not None] for row in outcomes]


def _scatter(rows: list[list[Outcome]], places: Sequence[int], outcomes: list[list[Outcome | None]]) -> None:
    for row, into in zip(rows, outcomes, strict=True):
        for place, outcome in zip(places, row, strict=True):
            into[place] = outcome


def _evaluate_learned(
    device: DeviceClass,
    workload: Workload[Any],
    mechanisms: Sequence[MechanismConfig],
    seeds: Sequence[int],
    episodes: int,
    dtype: str,
    timeout: float | None,
    fits: Fits | None,
) -> list[list[Outcome]]:
    """Mechanisms that learn: they train and read on torch's default device, all seeds at once and stream by stream."""
    if not mechanisms:
        return [[] for _ in seeds]
    import torch

    with torch.device(device):
        known = dict(fits or {})
        for config in mechanisms:
            if unfitted := [seed for seed in seeds if fit_key(config, seed) not in known]:
                known |= fit_all(workload, [config], unfitted)
        return [evaluate(workload, mechanisms, seed, episodes, dtype, timeout, known) for seed in seeds]


class _Sweep:
    """The trials of one call that have forms."""

    def __init__(
        self,
        device: DeviceClass,
        workload: Workload[Any],
        mechanisms: Sequence[MechanismConfig],
        seeds: Sequence[int],
        episodes: int,
        dtype: str,
        timeout: float | None,
    ) -> None:
        self.device, self.workload, self.mechanisms, self.seeds = device, workload, mechanisms, seeds
        self.episodes, self.dtype, self.timeout = episodes, dtype, timeout
        self.precision = precision(device, dtype)
        self.groups = [_Group(indices, self) for indices in self._members()]

    def _members(self) -> list[list[int]]:
        """Indices of the mechanisms that run in one form."""
        members: dict[tuple[Any, ...], list[int]] = {}
        for index, config in enumerate(self.mechanisms):
            key = (config.name, MECHANISMS.implementation(config.name).group_key(config))
            members.setdefault(key, []).append(index)
        return list(members.values())

    def run(self) -> list[list[Outcome]]:
        """Outcomes by seed and mechanism."""
        for streams, runs in self._batches():
            self._read(streams, runs)
        self._forget()
        outcomes: list[list[Outcome]] = [[failure(RuntimeError("not run"))] * len(self.mechanisms) for _ in self.seeds]
        for group in self.groups:
            for place, index in enumerate(group.members):
                results = group.outcomes(place) if group.error is None else self._again(group, index)
                for row, outcome in zip(outcomes, results, strict=True):
                    row[index] = outcome
        return outcomes

    def _again(self, group: _Group, index: int) -> list[Outcome]:
        """Outcomes by seed of a mechanism whose group has failed: those of each trial by itself."""
        if len(group.members) == 1 and len(self.seeds) == 1 and group.error is not None:
            return [failure(group.error)]
        alone = (
            _Sweep(self.device, self.workload, [self.mechanisms[index]], [seed], *self._rest()) for seed in self.seeds
        )
        return [sweep.run()[0][0] for sweep in alone]

    def _rest(self) -> tuple[int, str, float | None]:
        return self.episodes, self.dtype, self.timeout

    # --- packing ---

    def _batches(self) -> Iterator[tuple[list[Stream], list[Run]]]:
        """Streams of one layout, as many as fit into memory, with the seed's place and the episode of each."""
        waiting: dict[Layout, tuple[list[Stream], list[Run]]] = {}
        sizes: dict[Layout, int] = {}
        for run in product(range(len(self.seeds)), range(self.episodes)):
            stream = self.workload.stream(self.seeds[run[0]], run[1])
            shape = layout(stream)
            streams, runs = waiting.setdefault(shape, ([], []))
            streams.append(stream)
            runs.append(run)
            if shape not in sizes:
                sizes[shape] = self._fitting(shape)
            if len(streams) == sizes[shape]:
                yield waiting.pop(shape)
        yield from waiting.values()

    def _fitting(self, shape: Layout) -> int:
        """Streams that fit into memory at once, beside the largest intermediates."""
        queries = sum(asked for _, asked, _ in shape.phases)
        numbers = shape.length * (shape.dim + 1 + ROW_TOKENS) + queries * shape.dim
        numbers += sum(group.form.numbers(shape) for group in self.groups)
        size = 8 if self.dtype == "float64" else 4
        room = batch_memory(self.device) - (0 if self.device == "cpu" else 4 * size * BLOCK_ELEMENTS)
        return max(1, min(room // (size * numbers), BLOCK_ELEMENTS // (LEAST_ROWS * shape.length)))

    # --- reading ---

    def _read(self, streams: Sequence[Stream], runs: Sequence[Run]) -> None:
        """Let the groups that have not failed read `streams`; in halves where memory is too small for all of them."""
        try:
            for group, measured in self._read_all(streams, runs):
                group.add(measured, runs)
            return
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            full = MemoryError(f"one stream is too much for the memory of {self.device}: {error}")
        if len(streams) == 1:
            for group in self.groups:
                group.error = group.error or full
            return
        self._forget()
        release_memory(self.device)
        half = len(streams) // 2
        self._read(streams[:half], runs[:half])
        self._read(streams[half:], runs[half:])

    def _read_all(self, streams: Sequence[Stream], runs: Sequence[Run]) -> list[tuple[_Group, _Measured]]:
        """What each group did with `streams`. Raises RuntimeError where these are too many for the device's memory."""
        self._forget()
        batch = StreamBatch(streams, self.device, self.precision, self.dtype)
        noted = [(group, _Measured(group, batch)) for group in self.groups if group.error is None]
        for group, _ in noted:
            group.guard(group.start, batch, runs)
        for start, stop, phase in batch.segments():
            began = time.perf_counter()
            if any(group.compares for group, _ in noted):
                batch.rows(start, stop)
                synchronise(self.device)
            shared = time.perf_counter() - began
            for group, measured in noted:
                group.guard(measured.write, start, stop, shared)
            if phase is not None:
                for group, measured in noted:
                    group.guard(measured.settle, phase)
                for part, questions, shared in self._questions(batch, phase):
                    for group, measured in noted:
                        group.guard(measured.read, part, questions, shared)
                for group, measured in noted:
                    group.guard(measured.end_phase, phase)
        for group, measured in noted:
            group.guard(measured.finish)
        return noted

    def _questions(self, batch: StreamBatch, phase: BatchPhase) -> Iterator[tuple[slice, Questions, float]]:
        """The phase's queries in blocks, each with the seconds that its cosines took on the device."""
        blocks = batch.query_blocks(phase)
        while True:
            began = time.perf_counter()
            block = next(blocks, None)
            if block is None:
                return
            synchronise(self.device)
            part, cosines = block
            questions = Questions(phase.queries[:, part], cosines, phase.answers[:, part])
            yield part, questions, time.perf_counter() - began

    def _forget(self) -> None:
        """Let go of what the last batch left on the device."""
        for group in self.groups:
            group.forget()


class _Group(Guarded):
    """One form, and the sums of its trials' measurements over episodes, [seeds, configs] each."""

    def __init__(self, members: list[int], sweep: _Sweep) -> None:
        super().__init__(time_limit(sweep.timeout, len(members) * len(sweep.seeds)))
        configs = [sweep.mechanisms[index] for index in members]
        form: type[DeviceForm[Any]] = DEVICE_FORMS.implementation(configs[0].name)
        self.members = members
        self.seeds = sweep.seeds
        self.episodes = sweep.episodes
        self.device = sweep.device
        self.key_bytes = KEY_BYTES[sweep.dtype]
        self.form = form(configs)
        self.memory = stream_reader(configs[0].name)(configs)
        self.compares = False
        self.sums = {name: np.zeros((len(sweep.seeds), len(members))) for name in SUMMED_METRICS}
        self.phase_sums: dict[tuple[str, int], Floats] = {}
        self.build_seconds = self.read_seconds = 0.0
        self.tokens = self.queries = 0

    def attempt(self, step: Callable[..., None], *arguments: Any) -> None:
        """Run `step`, and wait for the device."""
        step(*arguments)
        synchronise(self.device)

    def passes_on(self, error: BaseException) -> bool:
        """A full memory calls for smaller batches."""
        return out_of_memory(error)

    def start(self, batch: StreamBatch, runs: Sequence[Run]) -> None:
        draws = [
            UNUSED if self.memory.seed_free else generator(self.seeds[place], "mechanism", episode)
            for place, episode in runs
        ]
        self.compares = self.memory.compares(batch.streams[0])
        self.memory.start(_shortest(batch.streams[0]), np.random.default_rng(0))
        self.form.start(batch, draws)

    def forget(self) -> None:
        """Let go of the streams read last and of all state."""
        if self.error is not None:
            _let_go(self.error)
        self.form = type(self.form)(self.form.configs)

    def add(self, measured: _Measured, runs: Sequence[Run]) -> None:
        """Add what was measured on the streams of `runs`."""
        if self.error is not None:
            return
        places = [place for place, _ in runs]
        for name, values in measured.means.items():
            np.add.at(self.sums[name], places, values)
        for key, values in measured.phase_means.items():
            np.add.at(self.phase_sums.setdefault(key, np.zeros(self.sums["recall"].shape)), places, values)
        self.build_seconds += measured.build_seconds
        self.read_seconds += measured.read_seconds
        self.tokens += measured.tokens
        self.queries += measured.queries

    def outcomes(self, place: int) -> list[Outcome]:
        """Outcomes by seed of the config at `place`."""
        timing = {
            "build_us_per_token": 1e6 * self.build_seconds / max(1, self.tokens),
            "read_us_per_query": 1e6 * self.read_seconds / max(1, self.queries),
        }
        results = []
        for seed in range(len(self.seeds)):
            metrics = {name: float(total[seed, place] / self.episodes) for name, total in self.sums.items()}
            series: dict[str, list[float]] = {}
            for (name, _), total in sorted(self.phase_sums.items(), key=lambda item: item[0][1]):
                series.setdefault(f"phase_{name}", []).append(float(total[seed, place] / self.episodes))
            results.append(checked(metrics | timing, series))
        return results


def _let_go(error: BaseException) -> None:
    """Let go of tensors that `error` keeps alive: variables of the functions that it ended, and of their callers."""
    traceback.clear_frames(error.__traceback__)
    frame = None if error.__traceback__ is None else error.__traceback__.tb_frame
    while frame is not None:
        with suppress(RuntimeError):  # a frame that still runs
            frame.clear()
        frame = frame.f_back


def _shortest(stream: Stream) -> Stream:
    """One token of `stream`: enough for a mechanism to say what its slots cost."""
    phase = Phase(1, stream.keys[:0], stream.values[:0], stream.items[:0], stream.values[:0])
    lines = None if stream.lines is None else stream.lines[:1]
    return Stream(stream.keys[:1], stream.values[:1], stream.items[:1], (phase,), stream.classes, stream.chance, lines)


class _Measured:
    """What one group does with one batch of streams; sums over phases and blocks, [streams, configs] each."""

    def __init__(self, group: _Group, batch: StreamBatch) -> None:
        self.group = group
        self.batch = batch
        self.shape = (len(batch), len(group.members))
        self.means = {name: np.zeros(self.shape) for name in SUMMED_METRICS}
        self.phase_means: dict[tuple[str, int], Floats] = {}
        self.build_seconds = self.read_seconds = 0.0
        self.tokens = self.queries = 0

    def write(self, start: int, stop: int, shared: float) -> None:
        self.build_seconds += shared if self.group.compares else 0.0
        self.build_seconds += self._timed(self.group.form.write, start, stop) / self.shape[1]
        self.tokens += (stop - start) * self.shape[0]

    def settle(self, phase: BatchPhase) -> None:
        self.build_seconds += self._timed(self.group.form.settle, phase.end) / self.shape[1]
        self.right = np.empty((*self.shape, phase.queries.shape[1]))

    def read(self, part: slice, questions: Questions, shared: float) -> None:
        began = time.perf_counter()
        self.right[..., part] = _on_host(self.group.form.answer(questions))
        self.read_seconds += (time.perf_counter() - began) / self.shape[1]
        self.read_seconds += shared if self.group.form.reads_cosines else 0.0
        self.queries += (part.stop - part.start) * self.shape[0]

    def _timed(self, step: Callable[..., None], *arguments: Any) -> float:
        began = time.perf_counter()
        step(*arguments)
        synchronise(self.group.device)
        return time.perf_counter() - began

    def end_phase(self, phase: BatchPhase) -> None:
        means, streams = self.means, self.batch.streams
        share = 1.0 / len(streams[0].phases)
        abstained = np.isnan(self.right)
        right = np.where(abstained, 0.0, self.right)
        picked = np.broadcast_to(_on_host(phase.asked).astype(np.int64)[:, None], (*self.shape, phase.asked.shape[1]))
        asked = np.take_along_axis(right, picked, axis=2).mean(axis=2)
        chance = np.array([stream.chance for stream in streams])[:, None]
        slots = _on_host(self.group.form.counts())
        means["recall"] += share * asked
        means["recall_all"] += share * right.mean(axis=2)
        means["recall_credited"] += share * (
            asked + chance * np.take_along_axis(abstained, picked, axis=2).mean(axis=2)
        )
        means["abstained"] += share * abstained.mean(axis=2)
        means["slots_phase_end"] += share * slots
        if len(streams[0].phases) > 1:
            number = [other.end for other in streams[0].phases].index(phase.end)
            items = np.array([stream.distinct_until(phase.end) for stream in streams], dtype=np.float64)[:, None]
            queries = right.shape[2]
            for name, values in zip(PHASE_SERIES, (asked, slots, items, phase.end, queries), strict=True):
                self.phase_means[name, number] = np.broadcast_to(np.asarray(values, dtype=np.float64), self.shape)

    def finish(self) -> None:
        memory, streams, means = self.group.memory, self.batch.streams, self.means
        slots = _on_host(self.group.form.counts())
        used, peak = (_on_host(count) for count in self.group.form.usage())
        body, metadata = memory.bytes_per_slot(streams[0].dim, self.group.key_bytes)
        means["slots"] += slots
        means["slots_peak"] += peak
        means["slots_mean"] += used / self.batch.layout.length
        means["bytes"] += memory.bytes_fixed() + slots * (body + metadata)
        means["bytes_peak"] += memory.bytes_fixed() + peak * (body + metadata)
        means["bytes_metadata"] += slots * metadata
        means["chance"] += np.array([stream.chance for stream in streams])[:, None]
        means["tokens"] += self.batch.layout.length
        means["items"] += np.array([stream.distinct for stream in streams])[:, None]


def _on_host(numbers: Tensor) -> Floats:
    """Numbers of a device, once it has computed them."""
    array: Floats = numbers.cpu().numpy().astype(np.float64)
    return array
