"""Memories of fixed size: one matrix that every token is written into, instead of slots."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from models.config import MechanismConfig
from models.mechanism import ABSTAINED, TIE, Mechanism, Role, Trace, Usage, scored
from models.reference import arrivals
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream

if TYPE_CHECKING:
    from typing import Self

    from models.long.memory import LongMemory
    from models.long.stream import LongStream

C = TypeVar("C", bound=MechanismConfig)

NUMBER_BYTES = 4
"""A number of the state is held in 32 bits, whatever the dtype of the keys; the arithmetic here is float64."""


class FixedSize(Mechanism[C]):
    """A memory of one size: `states` [C, rows, width], whose rows count as slots, from the first token to the last.

    Subclasses say in `update` how the states take in tokens, and in `answer` and `reader` how they are read.
    """

    role: ClassVar[Role] = "state"
    writes_vectors: ClassVar[bool] = False
    """True where `targets` are all that it writes: then these may be value vectors, which `outputs` reads."""

    vectors: Floats | None = None
    """Value vectors [L, dv] of tokens, which are written in place of classes; see `of_vectors`."""

    compares_tokens: ClassVar[bool] = False
    reads_long: ClassVar[bool] = True

    @abstractmethod
    def rows(self, dim: int) -> int:
        """Rows of a state for keys of width `dim`."""

    def of_vectors(self, vectors: Floats) -> Self:
        """The same configs, to write the value `vectors` [L, dv] of tokens. They answer no class."""
        made = type(self)(self.configs)
        made.vectors = vectors
        return made

    def outputs(self, queries: Floats) -> Floats:
        """What unit queries [Q, d] read of value vectors [C, Q, dv]; asked only of those with `writes_vectors`."""
        raise NotImplementedError  # others write more than targets: they have no read of vectors

    def target_width(self) -> int:
        """Numbers in a target, once `stream` is set."""
        return self.stream.classes if self.vectors is None else self.vectors.shape[1]

    def width(self) -> int:
        """Numbers in a row, once `stream` is set."""
        return self.target_width()

    def features(self, keys: Floats) -> Floats:
        """What stands for unit keys [n, d] when they are written."""
        return keys

    @abstractmethod
    def update(self, features: Floats, values: Ints) -> None:
        """Take tokens with `features` [b, ...] and `values` [b] into `states`, or into what `settle` makes it of."""

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        """Forget everything."""
        self.stream = stream
        rows, size = self.rows(stream.dim), len(self)
        self.states = np.zeros((size, rows, self.width()))
        self._counts = np.full(size, rows, dtype=np.int64)
        self._usage = Usage(np.zeros(size, dtype=np.int64), self._counts)

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        """Read tokens start..stop-1."""
        values = self.stream.values[start:stop] if self.vectors is None else np.arange(start, stop)
        self.update(self.features(similarities.keys[start:stop]), values)
        self._usage.held += (stop - start) * self._counts

    def long(self, stream: LongStream, rng: np.random.Generator) -> LongMemory[Any]:
        """These states as they take in `stream` in chunks."""
        from models.long.states import LongStates

        return LongStates(self, stream, rng)

    def targets(self, values: Ints) -> Floats:
        """One-hot `values` [b, classes]; of value vectors those [b, dv] of the tokens that `values` [b] are."""
        if self.vectors is not None:
            return self.vectors[values]
        found = np.zeros((len(values), self.stream.classes))
        found[np.arange(len(values)), values] = 1.0
        return found

    def counts(self) -> Ints:
        """Rows of the states [C]."""
        return self._counts

    def usage(self) -> Usage:
        """Rows of the states, at any time."""
        return self._usage

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, int]:
        """Bytes of one row: its numbers, and the row's share of what the rule must keep beside the state."""
        return NUMBER_BYTES * self.width(), NUMBER_BYTES * self.row_metadata(dim)

    def row_metadata(self, dim: int) -> int:
        """Numbers kept beside the state, per row."""
        return 0


class FixedState(FixedSize[C]):
    """A state S [rows, classes] that associates features of keys with one-hot values, read as y = phi(q) S.

    The answer is the class of largest y, the lowest within a tie. Scores are tied where they differ by less than the
    rounding of their sums: by 1e-9 of the longest column of S times the length of phi(q). A state that is zero, to
    within 1e-9, abstains. Subclasses say in `features` what phi(k) is, and in `update` how S takes in tokens.
    """

    writes_vectors: ClassVar[bool] = True

    def rows(self, dim: int) -> int:
        """Rows of S for keys of width `dim`."""
        return dim

    def outputs(self, queries: Floats) -> Floats:
        """The read itself, y."""
        return self.query_features(queries) @ self.states

    def query_features(self, queries: Floats) -> Floats:
        """What S is multiplied with to read unit queries [Q, d]: [Q, rows]."""
        return self.features(queries)

    def reader(self) -> Callable[[Floats], int]:
        """One product with the state: O(rows · classes), and what the features cost."""
        state = self.states[0]

        def read(query: Floats) -> int:
            return int(read_state(self.query_features(query[None]), state)[0])

        return read

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        """1 where the class read for a query is right, 0 where it is wrong, NaN where the state is zero [C, Q]."""
        features = self.query_features(block.queries)
        predicted = np.stack([read_state(features, state) for state in self.states])
        return scored(predicted, block, phase)


def read_state(features: Floats, state: Floats) -> Ints:
    """Class [Q] with the largest score under `features` [Q, rows]; ties to the lowest class; ABSTAINED if S is 0.

    Raises FloatingPointError where S is not finite.
    """
    longest = np.linalg.norm(state, axis=0).max()
    if not np.isfinite(longest):
        raise FloatingPointError("a state is not finite: what the rule adds up has grown without bound")
    if longest <= TIE:
        return np.full(len(features), ABSTAINED, dtype=np.int64)
    scores = features @ state
    rounding = TIE * longest * np.linalg.norm(features, axis=1)
    first: Ints = (scores >= (scores.max(axis=1) - rounding)[:, None]).argmax(axis=1)
    return first


class RidgeState(FixedState[C]):
    """The state whose linear read fits the values written so far best: S = (K'K + ridge I)^-1 K'V.

    It minimises the sum of |v - phi(k) S|^2 over tokens plus ridge |S|^2. It is solved for at a phase end; until then
    K'K [rows, rows] and K'V [rows, classes] are summed up, which all configs of a group share.
    """

    @abstractmethod
    def penalty(self, config: C) -> float | None:
        """The ridge; None for S = K'V, which fits nothing and needs no K'K. The same kind throughout a group."""

    @property
    def fits(self) -> bool:
        """Whether the states are fitted."""
        return self.penalty(self.config) is not None

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        """Forget everything."""
        super().start(stream, rng)
        rows = self.rows(stream.dim)
        self.sums = np.zeros((rows, self.width()))
        self.gram = np.zeros((rows, rows) if self.fits else (0, 0))

    def update(self, features: Floats, values: Ints) -> None:
        """Add to the sums."""
        self.sums += features.T @ self.targets(values)
        if self.fits:
            self.gram += features.T @ features

    def settle(self, similarities: Similarities, stop: int) -> None:
        """Solve for the states."""
        for state, config in zip(self.states, self.configs, strict=True):
            ridge = self.penalty(config)
            state[:] = (
                self.sums if ridge is None else np.linalg.solve(self.gram + ridge * np.eye(len(state)), self.sums)
            )

    def row_metadata(self, dim: int) -> int:
        """A row of K'K, or of its inverse, without which the next token cannot be taken in exactly."""
        return self.rows(dim) if self.fits else 0


def reference_ridge(features: Floats, targets: Floats, ridge: float) -> Iterator[Floats]:
    """The ridge state after each token by recursive least squares, the exact Bayesian update of arXiv 1804.01756.

    features [n, rows], targets [n, classes]. In float64 it loses digits where the ridge is far below 1.
    """
    inverse = np.eye(features.shape[1]) / ridge
    state = np.zeros((features.shape[1], targets.shape[1]))
    for key, value in zip(features, targets, strict=True):
        gain = inverse @ key / (1.0 + key @ inverse @ key)
        state = state + np.outer(gain, value - key @ state)
        inverse = inverse - np.outer(gain, key @ inverse)
        yield state


def trace_states(stream: Stream, states: Iterable[Floats]) -> Trace:
    """What a reference did whose state after each token is the next of `states`."""
    trace = Trace()
    for (_, phase_ends), state in zip(arrivals(stream), states, strict=False):
        trace.count(len(state))
        if phase_ends:
            trace.states.append(state)
    return trace


def one_hot(stream: Stream) -> Floats:
    """Values of the tokens [L, classes]."""
    return np.eye(stream.classes)[stream.values]
