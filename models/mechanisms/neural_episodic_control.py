"""Neural episodic control: a table of keys with values that move, read by inverse distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from models.allocation import NEW, match
from models.config import MOST, MechanismConfig
from models.kernel import kernel
from models.mechanism import ABSTAINED, NEAR_ONE, TIE, Mechanism, Trace, Usage, best_class, mechanism, scored
from models.reference import arrivals, cosine, unit_keys
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream, unit
from models.token_memory import remove


class NeuralEpisodicControlConfig(MechanismConfig):
    """A differentiable neural dictionary: a slot a distinct key, LRU when full (arXiv 1703.01988, Sec. 3).

    A token with a stored key moves that slot's value, a vector over the classes, by `alpha`; any other opens a slot.
    Kept: the exact match, the table's update, and the read of the k nearest with weights 1 / (|q - key|^2 + delta).
    Left out: the learned keys, the returns, and a table an action, whose place the value's entries take. A slot is used
    when its key is written; the original's when it comes up as a neighbour, but here answers change no memory.
    It holds what `item_lru` holds at tau = 0, and `dp_cache` at tau = 0 under a cap with a decay below 1/2, where usage
    ranks slots by their last use. With `alpha` 1 (`keep: last`) it answers like them where a slot's own key is asked
    for and `delta` goes to 0, and with `k` 1 always like their `argmax`.
    """

    name: Literal["neural_episodic_control"] = "neural_episodic_control"
    budget: int = Field(ge=0, le=MOST, description="most slots kept; 0 is no memory at all")
    k: int = Field(50, ge=1, le=MOST, description="slots read for a query; all if fewer are held")
    alpha: float = Field(0.1, gt=0.0, le=1.0, description="share by which a token moves the value stored under its key")
    delta: float = Field(
        1e-3, ge=1e-9, le=1e3, description="added to squared distances, so that a key's own weight is 1 / delta"
    )


class Tables(NamedTuple):
    """Slots of C tables, in order of opening, and their use so far.

    tokens  [C, cap]           token whose key a slot stores
    moved   [C, cap, classes]  value of a slot
    last    [C, cap]           token that used the slot last
    counts  [C]                slots in use
    held, peak [C]             as in `Usage`
    """

    tokens: Ints
    moved: Floats
    last: Ints
    counts: Ints
    held: Ints
    peak: Ints


@mechanism(NeuralEpisodicControlConfig)
class NeuralEpisodicControl(Mechanism[NeuralEpisodicControlConfig]):
    """Write O(B d), read O(B d + k classes). A slot has a number a class for its value, and notes its last use.

    Keys are equal where their cosine is 1 to within 1e-9. Ties at the k-th place: the oldest slots are read. Scores of
    classes within 1e-9 of the largest are tied, and the lowest class is read.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("budget", "k", "alpha", "delta")

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        size = len(self)
        self.stream = stream
        self.token_values = np.array(stream.values, dtype=np.int64)
        self.budget = np.array([config.budget for config in self.configs], dtype=np.int64)
        self.alpha = np.array([config.alpha for config in self.configs])
        width = int(np.clip(self.budget, 1, len(stream)).max())
        tokens, last = np.zeros((2, size, width), dtype=np.int64)
        counts, held, peak = np.zeros((3, size), dtype=np.int64)
        self.tables = Tables(tokens, np.zeros((size, width, stream.classes)), last, counts, held, peak)

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        rows = similarities.rows(start, stop)
        record(rows, start, self.token_values, self.budget, self.alpha, self.tables)

    def counts(self) -> Ints:
        return self.tables.counts

    def usage(self) -> Usage:
        return Usage(self.tables.held, self.tables.peak)

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, int]:
        return dim * key_bytes + 4 * (self.stream.value_width or self.stream.classes), 4

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        predicted = np.empty((len(self), len(block)), dtype=np.int64)
        for c, config in enumerate(self.configs):
            count = self.tables.counts[c]
            scores = np.zeros((len(block), self.stream.classes))
            if count:
                near = np.ascontiguousarray(block.cosines[:, self.tables.tokens[c, :count]])
                look_up(near, self.tables.moved[c], min(config.k, count), config.delta, scores)
            predicted[c] = best_class(scores)
        return scored(predicted, block, phase)

    def reader(self) -> Callable[[Floats], int]:
        config, count, moved = self.config, int(self.tables.counts[0]), self.tables.moved[0]
        keys = unit(self.stream.keys[self.tables.tokens[0, :count]])

        def read(query: Floats) -> int:
            if not count:
                return ABSTAINED
            scores = np.zeros((1, moved.shape[1]))
            look_up((keys @ query)[None], moved, min(config.k, count), config.delta, scores)
            return int(best_class(scores)[0])

        return read

    @classmethod
    def reference(
        cls, stream: Stream, config: NeuralEpisodicControlConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        keys, targets = unit_keys(stream, dtype), np.eye(stream.classes)
        queries = {phase.end: unit(phase.queries) for phase in stream.phases}
        trace = Trace()
        table: dict[int, Floats] = {}  # token that opened a slot -> the slot's value
        last_use: dict[int, int] = {}
        for t, phase_ends in arrivals(stream):
            target = targets[stream.values[t]]
            slot = next((slot for slot in table if cosine(keys[t], keys[slot]) > NEAR_ONE), None)
            if slot is not None:
                table[slot] = table[slot] + config.alpha * (target - table[slot])
                last_use[slot] = t
            elif config.budget:
                if len(table) == config.budget:
                    victim = min(table, key=lambda slot: last_use[slot])
                    del table[victim]
                table[t], last_use[t] = target, t
            trace.count(len(table))
            if phase_ends:
                trace.record(table, stream)
                nothing = np.zeros(stream.classes)
                scores = [sum(plain_votes(query, keys, table, config), nothing) for query in queries[t + 1]]
                trace.scores.append(np.array(scores))
        return trace


def plain_votes(
    query: Floats, keys: Floats, table: dict[int, Floats], config: NeuralEpisodicControlConfig
) -> list[Floats]:
    """What a query reads from a reference's table: weighed values [classes]."""
    cosines = {slot: cosine(query, keys[slot]) for slot in table}
    border = min(sorted(cosines.values(), reverse=True)[: config.k], default=0.0)
    clear = [slot for slot in table if cosines[slot] > border + TIE]
    tied = [slot for slot in table if abs(cosines[slot] - border) <= TIE]
    read = clear + tied[: config.k - len(clear)]
    distances = [0.0 if cosines[slot] > NEAR_ONE else 2.0 * (1.0 - cosines[slot]) for slot in read]
    return [table[slot] / (distance + config.delta) for slot, distance in zip(read, distances, strict=True)]


@kernel
def record(rows: Floats, first: int, stream_values: Ints, budget: Ints, alpha: Floats, tables: Tables) -> None:
    """Write a block of tokens, with cosines `rows` [b, n], to C tables."""
    for c in range(len(budget)):
        tokens, moved, last, count = tables.tokens[c], tables.moved[c], tables.last[c], tables.counts[c]
        for r in range(len(rows)):
            t = first + r
            slot = match(rows[r], tokens, count, 0.0)
            if slot != NEW:
                last[slot] = t
                moved[slot] *= 1.0 - alpha[c]
                moved[slot, stream_values[t]] += alpha[c]
            elif budget[c] > 0:
                if count == budget[c]:
                    victim = int(np.argmin(last[:count]))
                    remove(victim, count, tokens)
                    remove(victim, count, last)
                    for later in range(victim, count - 1):
                        moved[later] = moved[later + 1]
                    count -= 1
                tokens[count], last[count] = t, t
                moved[count] = 0.0
                moved[count, stream_values[t]] = 1.0
                count += 1
            tables.held[c] += count
            tables.peak[c] = max(tables.peak[c], count)
        tables.counts[c] = count


@kernel
def look_up(cosines: Floats, moved: Floats, k: int, delta: float, scores: Floats) -> None:
    """Add to `scores` [Q, classes] what queries with these `cosines` [Q, n] read of values `moved` [n, classes].

    On unit keys the squared distance is 2 (1 - cos).
    """
    count = cosines.shape[1]
    for q in range(len(cosines)):
        border = np.partition(cosines[q], count - k)[count - k]
        ties = k
        for slot in range(count):
            ties -= cosines[q, slot] > border + TIE
        for slot in range(count):
            near = cosines[q, slot]
            tied = border - TIE <= near <= border + TIE
            if near > border + TIE or (tied and ties > 0):
                ties -= tied
                distance = 0.0 if near > NEAR_ONE else 2.0 * (1.0 - near)
                for value in range(moved.shape[1]):
                    scores[q, value] += moved[slot, value] / (distance + delta)
