"""What workloads that read a recording share: items in the order recorded, keys drawn by seed, time windows."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar, TypeVar

import numpy as np
from pydantic import Field

from models.stream import Ints, Phase, Stream
from tasks.keys import Dim, Noise, QueryNoise, noisy, random_keys
from tasks.seeds import generator
from tasks.workload import Workload, WorkloadConfig

Windows = Annotated[
    int | None,
    Field(
        ge=1,
        le=10_000,
        description="equal spans of time; each ends in queries for what was seen in it; by default one query for "
        "everything at the end",
    ),
]


class RecordedConfig(WorkloadConfig):
    """Options of a recording's keys, which are drawn: a recording itself has none."""

    dim: Dim = 64
    noise: Noise = 0.3
    query_noise: QueryNoise = 0.0


@dataclass(frozen=True)
class Recording:
    """Occurrences of items in the order of the stream.

    items   [L]  identity of each occurrence's item
    values  [L]  class of that item, the same for all its occurrences
    ends         tokens that have come by the end of each phase
    lines   [L]  words of its log line; None where the recording is not a log
    """

    items: Ints
    values: Ints
    ends: Sequence[int]
    lines: tuple[tuple[str, ...], ...] | None = None


R = TypeVar("R", bound=RecordedConfig)


class RecordedWorkload(Workload[R]):
    """A recording as a stream: each phase asks once for every item seen in it, and all queries count for `recall`.

    There is one phase, the whole recording, or one for each equal span of time in which anything occurred (`windows`;
    arXiv 2607.09889, §3.2.1).

    A seed draws the items' keys, nothing else. Chance is the probability that two of the distinct items have the same
    class: what a guess by the class of a random stored item earns.
    """

    default_episodes: ClassVar[int] = 1

    def __init__(self, config: R) -> None:
        super().__init__(config)
        self.recording = recording = self.read()
        self._distinct, first, self._place = np.unique(recording.items, return_index=True, return_inverse=True)
        self._answers = recording.values[first]
        shares = np.bincount(self._answers) / len(self._answers)
        self._chance = float(shares @ shares)
        self._classes = int(recording.values.max()) + 1

    @abstractmethod
    def read(self) -> Recording:
        """The recording that the config names."""

    def stream(self, seed: int, episode: int) -> Stream:
        config, recording = self.config, self.recording
        rng = generator(seed, "stream", episode)
        base = random_keys(len(self._distinct), config.dim, rng)
        keys = noisy(base[self._place], config.noise, rng)

        rng = generator(seed, "queries", episode)
        phases = []
        for start, end in pairwise([0, *recording.ends]):
            seen = np.unique(self._place[start:end])
            queries = noisy(base[seen], config.query_noise, rng)
            phases.append(Phase(end, queries, self._answers[seen], self._distinct[seen], np.arange(len(seen))))
        values, items = recording.values, recording.items
        return Stream(keys, values, items, tuple(phases), self._classes, self._chance, recording.lines)


def window_ends(times: Ints, windows: int | None) -> list[int]:
    """How many tokens have come by the end of each of `windows` equal spans of time, empty spans left out.

    times  [L]  when each token came, in any unit, never falling

    Spans tile [first, last]; a token on a border belongs to the later span, the last token to the last span. Without
    `windows` the whole recording is one span.
    """
    windows = windows or 1
    window = (times - times[0]) * windows // max(1, int(times[-1] - times[0]))
    last_of_window = np.append(np.diff(np.minimum(window, windows - 1)) > 0, True)
    ends: list[int] = (np.flatnonzero(last_of_window) + 1).tolist()
    return ends


def numbered(names: Sequence[str]) -> Ints:
    """A number for each of `names` [L]: its rank among the distinct ones."""
    numbers: Ints = np.unique(np.asarray(names), return_inverse=True)[1].astype(np.int64)
    return numbers


def modal_classes(items: Ints, labels: Sequence[str]) -> Ints:
    """A class for each occurrence [L]: its item's most common label (ties: the first by name), numbered by name."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for item, label in zip(items.tolist(), labels, strict=True):
        counts[item][label] += 1
    modal = {item: min(count, key=lambda label: (-count[label], label)) for item, count in counts.items()}
    return numbered([modal[item] for item in items.tolist()])


def hashed_classes(names: Sequence[str], classes: int) -> Ints:
    """A class for each of `names` [L], CRC-32 modulo `classes`: for items that come without any label."""
    return np.array([zlib.crc32(name.encode()) % classes for name in names], dtype=np.int64)
