"""The bound OPT: what no memory that keeps one item a slot can expect to beat with as many slots."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, Literal

import numpy as np

from models.mechanism import VALUE_BYTES, Mechanism, Role, Trace, Usage, mechanism
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream
from models.token_memory import BudgetConfig


class OptimalConfig(BudgetConfig):
    """The best recall of `budget` slots that keep one item each: items that will be asked, a guess for the others.

    It bounds memories whose slot is a key with its value. It does not bound states of fixed size, whose rows count as
    slots and each hold a part of many items, nor is it a bound in bytes. A memory that guesses the commonest class can
    exceed it where classes are unequal, by what that guess gains.
    With K items asked alike it is min(1, B/K) + (1 - min(1, B/K)) chance (bound (a) of offline caching at a phase end).
    """

    name: Literal["optimal"] = "optimal"


@mechanism(OptimalConfig)
class Optimal(Mechanism[OptimalConfig]):
    """A bound on what slots of one item can give, not a rule: it knows the queries and each token's item.

    Between two phase ends it holds the items seen so far that the next phase asks, at most `budget` of them; if some
    are asked more often than others, it prefers these. It never abstains: with budget 0 the bound is chance. It is an
    expectation: a run of a real memory can guess luckier.
    """

    role: ClassVar[Role] = "bound"
    bounds: ClassVar[str] = "bound, one item a slot"
    batch_over: ClassVar[tuple[str, ...]] = ("budget",)
    compares_tokens: ClassVar[bool] = False

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        self.stream = stream
        self.budget = np.array([config.budget for config in self.configs], dtype=np.int64)
        self.holds, self.held, self.peak = np.zeros((3, len(self)), dtype=np.int64)
        self._usage = Usage(self.held, self.peak)
        self.phase: Phase | None = None

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        self.see(start, stop)

    def see(self, start: int, stop: int) -> None:
        """Note the items of tokens start..stop-1: their keys do not matter."""
        phase = next(phase for phase in self.stream.phases if phase.end >= stop)
        if phase is not self.phase:
            self._expect(phase)
        seen = np.searchsorted(self.first_seen, np.arange(start, stop), side="right")
        held = np.minimum(seen, self.budget[:, None])
        self.holds[:] = held[:, -1]
        self.held += held.sum(axis=1)
        np.maximum(self.peak, held.max(axis=1), out=self.peak)

    def _expect(self, phase: Phase) -> None:
        """Prepare for a phase: when the items it asks arrive, and the share of its queries the best B of them get."""
        asked, times = np.unique(phase.items, return_counts=True)
        seen, first = np.unique(self.stream.items[: phase.end], return_index=True)
        _, in_asked, in_seen = np.intersect1d(asked, seen, assume_unique=True, return_indices=True)
        most_asked = np.sort(times[in_asked])[::-1]
        covered = np.concatenate([[0], np.cumsum(most_asked)])
        self.phase = phase
        self.first_seen = np.sort(first[in_seen])
        self.share = covered[np.minimum(self.budget, len(most_asked))] / max(len(phase.items), 1)

    def counts(self) -> Ints:
        return self.holds

    def usage(self) -> Usage:
        return self._usage

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        return np.repeat(self.bound()[:, None], len(block), axis=1)

    def bound(self) -> Floats:
        """Expected recall [C] of the phase that has just ended."""
        bound: Floats = self.share + (1.0 - self.share) * self.stream.chance
        return bound

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, int]:
        """Those of a plain slot: its key and value."""
        return dim * key_bytes + VALUE_BYTES, 0

    @classmethod
    def reference(
        cls, stream: Stream, config: OptimalConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        trace = Trace()
        start = 0
        for phase in stream.phases:
            times = Counter(phase.items.tolist())
            first: dict[int, int] = {}
            for t, item in enumerate(stream.items[: phase.end].tolist()):
                if item in times:
                    first.setdefault(item, t)
                if t >= start:
                    trace.count(min(len(first), config.budget))
            most_asked = sorted((-times[item], t) for item, t in first.items())[: config.budget]
            trace.record(sorted(t for _, t in most_asked), stream)
            start = phase.end
        return trace
