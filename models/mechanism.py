"""The seam every memory mechanism meets, and what slot memories have in common: reading, counting, byte accounting."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from models.config import MechanismConfig, SlotConfig
from models.kernel import kernel
from models.registry import Registry
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream, unit

if TYPE_CHECKING:
    from models.attending import AttentionBlock
    from models.long.memory import LongMemory
    from models.long.stream import LongStream

C = TypeVar("C", bound=MechanismConfig)
S = TypeVar("S", bound=SlotConfig)

VALUE_BYTES = 4
"""A slot's value is a class id held in 32 bits."""

TIE = 1e-9
"""Scores this close (relative; cosines: absolute) are tied, so that two copies of one key tie whatever the rounding of
their products. A tie is settled by the stated rule."""

NEAR_ONE = 1.0 - TIE
"""Cosines above this are 1: two copies of one key merge at tau = 0 whatever the rounding of their product."""

ABSTAINED = -1
"""The answer of a memory that holds nothing."""


def value_bytes(width: int, key_bytes: int) -> int:
    """Bytes of a slot's value: of its vector of `width` numbers, where tokens have such (else 0), else of its class."""
    return width * key_bytes or VALUE_BYTES


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


class Slots(NamedTuple):
    """The slots of C memories and their use so far: the state that kernels read and write.

    tokens  [C, cap]  index of the token whose key a slot stores, in order of arrival
    values  [C, cap]  class a slot stores
    counts  [C]       slots in use; rows are valid up to here
    held    [C]       sum over tokens of the slots in use after each write
    peak    [C]       most slots in use after any write
    """

    tokens: Ints
    values: Ints
    counts: Ints
    held: Ints
    peak: Ints


@dataclass
class Usage:
    """Slots in use over time, one entry a config: their sum over tokens, after each write, and their peak."""

    held: Ints
    peak: Ints


@dataclass
class Trace:
    """What a reference run did, for reading and for tests.

    tokens, values, keys: slots at each phase end, in slot order (keys only where they are not keys of tokens)
    states: state matrix [rows, classes] at each phase end, of memories that have one
    query_features: what states, or their last columns, one a class, are multiplied with [Q, rows] for each phase's
        queries, where that is not what `features` says
    scores: class scores [Q, classes] of each phase's queries, of networks and of memories with a read of their own
    held, peak: as in `Usage`, for the one config
    margin: smallest gap (relative; of cosines absolute) by which any decision was taken; a tie, settled by the stated
        rule, does not count. Fast and reference forms must agree wherever margin > 1e-6.
    """

    tokens: list[list[int]] = field(default_factory=list)
    values: list[list[int]] = field(default_factory=list)
    keys: list[Floats] | None = None
    states: list[Floats] = field(default_factory=list)
    query_features: list[Floats] = field(default_factory=list)
    scores: list[Floats] = field(default_factory=list)
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

    def record(self, tokens: Iterable[int], stream: Stream) -> None:
        """Note slots at a phase end that hold `tokens` with their own values."""
        self.tokens.append(list(tokens))
        self.values.append([int(stream.values[token]) for token in self.tokens[-1]])


Role = Literal["memory", "state", "bound"]
"""What part a mechanism plays in a comparison: a rule like others; a state of fixed size, whose rows count as slots and
hold no item by itself; a bound, which knows what no rule may know."""


class AnyMechanism:
    """What everything that stands under `mechanisms:` says of itself."""

    role: ClassVar[Role] = "memory"

    bounds: ClassVar[str] = ""
    """Of a bound: what it bounds, in a few words that stand beside its name."""

    batch_over: ClassVar[tuple[str, ...]] = ()
    """Fields in which configs of one group may differ; all others are equal within a group."""

    trained: ClassVar[bool] = False
    """True for mechanisms that learn from the workload before they are evaluated on it."""

    reads_lines: ClassVar[bool] = False
    """True for mechanisms that read the words of log lines, which most streams do not have."""

    reads_long: ClassVar[bool] = False
    """True for mechanisms that read streams longer than memory, in chunks: see `Mechanism.long`."""

    reads_ids: ClassVar[bool] = False
    """True for sequence models, which read token ids; all others read streams of keys and values."""

    own_metrics: ClassVar[tuple[str, ...]] = ()
    """Names of the metrics that it adds to those of every mechanism that reads the same: what a spec may aim at."""

    @classmethod
    def group_key(cls, config: MechanismConfig) -> tuple[Any, ...]:
        """Configs with equal keys run as one group."""
        fields = config.identity()
        return tuple(sorted((name, repr(value)) for name, value in fields.items() if name not in cls.batch_over))


class Mechanism(AnyMechanism, ABC, Generic[C]):
    """Several configs of one mechanism, differing only in `batch_over`, reading one stream after another.

    A stream is read as: `start`, then for each segment `write` and, at a phase end, `settle` and `answer`.
    """

    seed_free: ClassVar[bool] = True
    """False for mechanisms that draw random numbers of their own."""

    compares_tokens: ClassVar[bool] = True
    """False for mechanisms that write without comparing a token with earlier ones: they pay for no such cosines."""

    def __init__(self, configs: Sequence[C]) -> None:
        self.configs = tuple(configs)
        self.config = self.configs[0]

    def __len__(self) -> int:
        return len(self.configs)

    @abstractmethod
    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        """Forget everything and prepare for `stream`. `rng` descends from the trial's seed (child `mechanism`)."""

    @abstractmethod
    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        """Read tokens start..stop-1."""

    def settle(self, similarities: Similarities, stop: int) -> None:
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
    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int | Floats, int | Floats]:
        """Bytes of one slot: (key and value, metadata the policy must keep with it).

        Means over slots [C] where these differ in size.
        """

    def bytes_fixed(self) -> int:
        """Bytes held however many slots are in use: parameters, a state beside the slots."""
        return 0

    def compares(self, stream: Stream) -> bool:
        """Whether it will ask for cosines between the tokens of `stream`: `compares_tokens`, or what a config says."""
        return self.compares_tokens

    def attends(self, c: int, block: AttentionBlock, phase: Phase) -> Floats | None:
        """How much of each token so far config `c` reads for each query of `block`, by a layer's own logits.

        Weights [Q, n] up to a factor for each query. None where what is read is no kept tokens.
        """
        return None

    def extras(self) -> dict[str, Floats]:
        """Metrics of its own by name [C], asked for after each stream; results show their means over episodes."""
        return {}

    def long(self, stream: LongStream, rng: np.random.Generator) -> LongMemory[Any]:
        """These configs as they read `stream` in chunks. Raises TypeError where `reads_long` is false."""
        raise TypeError(f"`{self.config.name}` reads no stream in chunks")

    def builds(self, stream: Stream, dtype: str, rng: np.random.Generator) -> dict[str, Callable[[], None]]:
        """Ways to read the whole of `stream` as this memory would alone, to be timed; the first is the one to use.

        `build` is there for every mechanism; others are named `build_...`.
        """

        def build() -> None:
            similarities = Similarities(stream, dtype)
            self.start(stream, rng)
            for start, stop, phase in similarities.segments():
                self.write(similarities, start, stop)
                if phase is not None:
                    self.settle(similarities, stop)

        return {"build": build}

    def reader(self) -> Callable[[Floats], int]:
        """What answers one unit query [d] with a class (or ABSTAINED) from the first config's state alone, to be timed.

        Raises TypeError where a mechanism cannot be read alone.
        """
        raise TypeError(f"`{self.config.name}` has no read of its own that could be timed")

    @classmethod
    @abstractmethod
    def reference(cls, stream: Stream, config: C, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        """The same rule in float64 as one plain loop over one stream, for reading and for tests."""


class SlotMemory(Mechanism[S]):
    """A memory of (key, value) slots read by softmax attention over the slots (arXiv 2607.09889, Eq. 3).

    Subclasses keep `slots` up to date in `write` and `settle`; everything else is here.
    """

    metadata_bytes: ClassVar[int] = 0
    value_width = 0

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        """Forget everything; make room for the largest config."""
        width = max(1, *(self.capacity(config, len(stream)) for config in self.configs))
        size = len(self.configs)
        self.stream = stream
        self.token_values = np.array(stream.values, dtype=np.int64)
        tokens, values = np.zeros((2, size, width), dtype=np.int64)
        counts, held, peak = np.zeros((3, size), dtype=np.int64)
        self.slots = Slots(tokens, values, counts, held, peak)
        self.value_width = stream.value_width
        self._usage = Usage(held, peak)

    def capacity(self, config: S, length: int) -> int:
        """Most slots `config` can ever hold at once on a stream of `length` tokens, a newcomer included."""
        return length

    def counts(self) -> Ints:
        """Slots in use [C], now."""
        return self.slots.counts

    def usage(self) -> Usage:
        """Slots in use over the stream read so far."""
        return self._usage

    def contents(self) -> Contents:
        """What each config holds now."""
        return Contents(self.slots.tokens, self.slots.values, self.slots.counts)

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, int | Floats]:
        """Bytes of one slot: (key and value, metadata the policy must keep with it)."""
        return dim * key_bytes + self.value_bytes(key_bytes), self.metadata_bytes

    def value_bytes(self, key_bytes: int) -> int:
        """Bytes of a slot's value; see `value_bytes`."""
        return value_bytes(self.value_width, key_bytes)

    def attends(self, c: int, block: AttentionBlock, phase: Phase) -> Floats | None:
        """Softmax numerators over the tokens that stand in slots; None for who reads in another way, or centroids."""
        contents = self.contents()
        if type(self).answer is not SlotMemory.answer or contents.keys is not None:
            return None
        kept = np.zeros(len(block.raw_keys), dtype=np.bool_)
        kept[contents.tokens[c, : contents.counts[c]]] = True
        return block.over(np.broadcast_to(kept, block.cosines.shape))

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        """1 where the class read for a query is right, 0 where it is wrong, NaN where the memory is empty [C, Q]."""
        contents = self.contents()
        predicted = np.empty((len(self.configs), len(block)), dtype=np.int64)
        if contents.keys is None:
            weights = self._weights(block)
            self._read(weights, contents.tokens, contents.values, contents.counts, predicted)
        else:
            self._read_own_keys(block, contents.keys, contents, predicted)
        return scored(predicted, block, phase)

    def reader(self) -> Callable[[Floats], int]:
        """One product with the keys of the slots, and a vote of their values: O(slots · d)."""
        contents = self.contents()
        count = int(contents.counts[0])
        own = unit(self.stream.keys[contents.tokens[0, :count]]) if contents.keys is None else contents.keys[0, :count]
        keys = np.ascontiguousarray(own, dtype=np.float32)
        values, classes, reading = contents.values[0, :count].copy(), self.stream.classes, self.config.reading

        def read(query: Floats) -> int:
            if not count:
                return ABSTAINED
            cosines = keys @ query.astype(np.float32)
            if reading == "argmax":
                return int(values[cosines.argmax()])
            weights = np.exp((cosines - 1.0) / reading)
            return int(np.bincount(values, weights, classes).argmax())

        return read

    def _weights(self, block: QueryBlock) -> Floats:
        """What queries read with: softmax numerators, or plain cosines where the best slot alone is read."""
        reading = self.config.reading
        return block.cosines if reading == "argmax" else block.read_weights(reading)

    def _read(self, weights: Floats, tokens: Ints, values: Ints, counts: Ints, predicted: Ints) -> None:
        if self.config.reading == "argmax":
            read_best(weights, tokens, values, counts, predicted)
        else:
            read_softmax(weights, tokens, values, counts, self.stream.classes, predicted)

    def _read_own_keys(self, block: QueryBlock, keys: Floats, contents: Contents, predicted: Ints) -> None:
        """Read memories one by one whose slots have keys of their own."""
        for c, count in enumerate(contents.counts):
            own = QueryBlock(block.start, block.queries, keys[c, :count])
            predicted[c] = self.predict(own, contents.values[c, :count])

    def predict(self, block: QueryBlock, values: Ints) -> Ints:
        """Class [Q] read from slots with `values` [m], whose cosines with the queries are those of `block`."""
        predicted = np.empty((1, len(block)), dtype=np.int64)
        slots, counts = np.arange(len(values))[None], np.array([len(values)])
        self._read(self._weights(block), slots, values[None], counts, predicted)
        row: Ints = predicted[0]
        return row


def scored(predicted: Ints, block: QueryBlock, phase: Phase) -> Floats:
    """Predicted classes [C, Q] against the answers of `block`: 1 right, 0 wrong, NaN abstained."""
    right = phase.answers[block.start : block.start + len(block)]
    return np.where(predicted == ABSTAINED, np.nan, predicted == right)


def best_class(scores: Floats) -> Ints:
    """Class [Q] with the largest of `scores` [Q, classes], the lowest within a tie; ABSTAINED where all are 0.

    Scores are tied where they differ by less than 1e-9 of the largest magnitude. Raises FloatingPointError where one is
    not finite.
    """
    largest = np.abs(scores).max(axis=1)
    if not np.isfinite(largest).all():
        raise FloatingPointError("a memory gives scores that are not finite: what it adds up has grown without bound")
    first = (scores >= (scores.max(axis=1) - TIE * largest)[:, None]).argmax(axis=1)
    return np.where(largest > 0.0, first, ABSTAINED)


@kernel
def winner(votes: Floats) -> int:
    """Class with most votes; ties to the lowest class."""
    border = votes.max() * (1.0 - TIE)
    best = 0
    while votes[best] < border:
        best += 1
    return best


@kernel
def read_softmax(weights: Floats, tokens: Ints, values: Ints, counts: Ints, classes: int, predicted: Ints) -> None:
    """Class with the largest summed weight per config and query; ties to the lowest class; ABSTAINED if empty."""
    votes = np.empty(classes)
    for c in range(len(counts)):
        for q in range(len(weights)):
            votes[:] = 0.0
            for slot in range(counts[c]):
                votes[values[c, slot]] += weights[q, tokens[c, slot]]
            predicted[c, q] = winner(votes) if counts[c] > 0 else ABSTAINED


@kernel
def read_best(cosines: Floats, tokens: Ints, values: Ints, counts: Ints, predicted: Ints) -> None:
    """Class of the slot nearest to each query; ties to the lowest slot; ABSTAINED if the memory is empty."""
    for c in range(len(counts)):
        for q in range(len(cosines)):
            best = -np.inf
            for slot in range(counts[c]):
                best = max(best, cosines[q, tokens[c, slot]])
            predicted[c, q] = ABSTAINED
            for slot in range(counts[c]):
                if cosines[q, tokens[c, slot]] >= best - TIE:
                    predicted[c, q] = values[c, slot]
                    break


MECHANISMS: Registry[AnyMechanism] = Registry("mechanism", "models.mechanisms", "slotsweep.mechanisms")
mechanism = MECHANISMS.register


def stream_reader(name: str) -> type[Mechanism[Any]]:
    """The implementation of `name`, which reads streams. Raises TypeError for a sequence model."""
    implementation = MECHANISMS.implementation(name)
    if not issubclass(implementation, Mechanism):
        raise TypeError(f"`{name}` reads token ids, and no streams of keys and values")
    return implementation
