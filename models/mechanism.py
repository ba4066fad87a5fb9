"""The seam every memory mechanism meets, and what slot memories have in common: reading, counting, byte accounting."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from models.config import MechanismConfig
from models.kernel import kernel
from models.registry import Registry
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream

C = TypeVar("C", bound=MechanismConfig)

VALUE_BYTES = 4
"""A slot's value is a class id held in 32 bits."""

NEAR_ONE = 1.0 - 1e-9
"""Cosines above this are 1: two copies of one key merge at tau = 0 whatever the rounding of their product."""

ABSTAINED = -1
"""The answer of a memory that holds nothing."""


@dataclass(frozen=True)
class Contents:
    """What C memories hold at a moment.

    tokens  [C, cap]     index of the token whose key a slot stores
    values  [C, cap]     class a slot stores
    counts  [C]          slots in use; rows are valid up to here
    keys    [C, cap, d]  slot keys where they are not keys of tokens (centroids), else None
    """

    tokens: Ints
    values: Ints
    counts: Ints
    keys: Floats | None = None


@dataclass
class Usage:
    """Slots in use over time, one entry a config: sum over tokens (after each write), peak, and count at phase ends."""

    held: Ints
    peak: Ints
    phase_ends: list[Ints] = field(default_factory=list)


@dataclass
class Trace:
    """What a reference run did, for reading and for tests.

    tokens, values, keys: slots at each phase end, in slot order (keys only where they are not keys of tokens)
    held, peak: as in `Usage`, for the one config
    margin: smallest relative gap by which any decision was taken; an exact tie, settled by the stated rule, does not
        count. Fast and reference forms must agree wherever margin > 1e-6.
    """

    tokens: list[list[int]] = field(default_factory=list)
    values: list[list[int]] = field(default_factory=list)
    keys: list[Floats] | None = None
    held: int = 0
    peak: int = 0
    margin: float = float("inf")

    def decide(self, gap: float) -> None:
        """Note a decision taken by `gap` (0 means an exact tie)."""
        if gap != 0:
            self.margin = min(self.margin, abs(gap))

    def count(self, slots: int) -> None:
        """Note the slots in use after a token."""
        self.held += slots
        self.peak = max(self.peak, slots)


class Mechanism(ABC, Generic[C]):
    """Several configs of one mechanism, differing only in `batch_over`, reading one stream after another.

    A stream is read as: `start`, then for each segment `write` and, at a phase end, `settle` and `answer`.
    """

    batch_over: ClassVar[tuple[str, ...]] = ()
    """Fields in which configs of one group may differ; all others are equal within a group."""

    seed_free: ClassVar[bool] = True
    """False for mechanisms that draw random numbers of their own."""

    def __init__(self, configs: Sequence[C]) -> None:
        self.configs = tuple(configs)
        self.config = self.configs[0]

    def __len__(self) -> int:
        return len(self.configs)

    @classmethod
    def group_key(cls, config: MechanismConfig) -> tuple[Any, ...]:
        """Configs with equal keys run as one group."""
        fields = config.identity()
        return tuple(sorted((name, repr(value)) for name, value in fields.items() if name not in cls.batch_over))

    @abstractmethod
    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        """Forget everything and prepare for `stream`. `rng` descends from the trial's seed (child `mechanism`)."""

    @abstractmethod
    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        """Read tokens start..stop-1."""

    def settle(self, similarities: Similarities, stop: int) -> None:  # noqa: B027 - most memories have nothing to do
        """Called after the last token of a phase, before its queries: one-shot policies compress here."""

    @abstractmethod
    def counts(self) -> Ints:
        """Slots in use [C], now."""

    @abstractmethod
    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        """Probability [C, Q] that each query of `block` is answered right; NaN where the memory abstains."""

    @abstractmethod
    def usage(self) -> Usage:
        """Slots in use over the stream read so far."""

    @abstractmethod
    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, int]:
        """Bytes of one slot: (key and value, metadata the policy must keep with it)."""

    @classmethod
    @abstractmethod
    def reference(cls, stream: Stream, config: C, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        """The same rule in float64 as one plain loop over one stream, for reading and for tests."""


class SlotMemory(Mechanism[C]):
    """A memory of (key, value) slots read by softmax attention over the slots (arXiv 2607.09889, Eq. 3).

    Subclasses fill `tokens`, `values`, `counts_` (and `usage_`) in `write`; everything else is here.
    """

    metadata_bytes: ClassVar[int] = 0

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        width = max(1, max(self.capacity(config, len(stream)) for config in self.configs))
        size = len(self.configs)
        self.stream = stream
        self.tokens = np.zeros((size, width), dtype=np.int64)
        self.values = np.zeros((size, width), dtype=np.int64)
        self.counts_ = np.zeros(size, dtype=np.int64)
        self.usage_ = Usage(np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64))

    def capacity(self, config: C, length: int) -> int:
        """Most slots `config` can ever hold at once on a stream of `length` tokens."""
        return length

    def counts(self) -> Ints:
        return self.counts_

    def usage(self) -> Usage:
        return self.usage_

    def contents(self) -> Contents:
        """What each config holds now."""
        return Contents(self.tokens, self.values, self.counts_)

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, int]:
        return dim * key_bytes + VALUE_BYTES, self.metadata_bytes

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        contents = self.contents()
        predicted = np.empty((len(self.configs), len(block)), dtype=np.int64)
        if contents.keys is not None:
            for index, (keys, values, count) in enumerate(
                zip(contents.keys, contents.values, contents.counts, strict=True)
            ):
                cosines = block.queries @ keys[:count].T
                predicted[index] = self._predict_from(cosines, values[None, :count])
        elif self.config.reading == "argmax":
            read_best(block.cosines, contents.tokens, contents.values, contents.counts, predicted)
        else:
            weights = block.read_weights(self.config.reading)
            read_softmax(
                weights, contents.tokens, contents.values, contents.counts, self.stream.classes, predicted
            )
        right = np.asarray(phase.answers[block.start : block.start + len(block)])
        return np.where(predicted == ABSTAINED, np.nan, (predicted == right).astype(np.float64))

    def _predict_from(self, cosines: Floats, values: Ints) -> Ints:
        """Classes read from slots that have keys of their own: cosines [Q, m], values [1, m]."""
        slots = np.arange(cosines.shape[1], dtype=np.int64)[None]
        count = np.array([cosines.shape[1]], dtype=np.int64)
        predicted = np.empty((1, len(cosines)), dtype=np.int64)
        if self.config.reading == "argmax":
            read_best(cosines, slots, values, count, predicted)
        else:
            weights = np.exp((cosines - 1.0) / self.config.reading)
            read_softmax(weights, slots, values, count, self.stream.classes, predicted)
        return predicted[0]


@kernel
def read_softmax(
    weights: Floats, tokens: Ints, values: Ints, counts: Ints, classes: int, predicted: Ints
) -> None:
    """Class with the largest summed weight per config and query; ties to the lowest class; ABSTAINED if empty."""
    votes = np.empty(classes)
    for c in range(len(counts)):
        for q in range(len(weights)):
            votes[:] = 0.0
            for slot in range(counts[c]):
                votes[values[c, slot]] += weights[q, tokens[c, slot]]
            predicted[c, q] = np.argmax(votes) if counts[c] > 0 else -1


@kernel
def read_best(cosines: Floats, tokens: Ints, values: Ints, counts: Ints, predicted: Ints) -> None:
    """Class of the slot nearest to each query; ties to the lowest slot; ABSTAINED if the memory is empty."""
    for c in range(len(counts)):
        for q in range(len(cosines)):
            predicted[c, q] = -1
            best = -np.inf
            for slot in range(counts[c]):
                cosine = cosines[q, tokens[c, slot]]
                if cosine > best:
                    best = cosine
                    predicted[c, q] = values[c, slot]


MECHANISMS: Registry[Mechanism[Any]] = Registry("mechanism", "models.mechanisms", "slotsweep.mechanisms")
mechanism = MECHANISMS.register
