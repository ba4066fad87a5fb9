"""Memories that keep every token and read, for a query, only some of them, or not all alike."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.attending import AttentionBlock
from models.config import ReadTemperature, SlotConfig
from models.kernel import kernel
from models.mechanism import ABSTAINED, TIE, Trace, scored, winner
from models.reference import keep_all, lowest
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream
from models.token_memory import TokenMemory

C = TypeVar("C", bound=SlotConfig)

Mask = NDArray[np.bool_]


class SelectiveMemory(TokenMemory[C]):
    """Holds all tokens; subclasses say in `shares` what queries read of them. A query that reads none abstains."""

    compares_tokens: ClassVar[bool] = False

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        """Keep tokens start..stop-1."""
        self.append(start, stop)

    def settle(self, similarities: Similarities, stop: int) -> None:
        """Let `keys` be the unit keys [stop, d] of all tokens so far; subclasses make their index of them."""
        self.keys = similarities.keys[:stop]

    @abstractmethod
    def shares(self, c: int, block: QueryBlock, phase: Phase) -> Floats:
        """What config `c` reads the tokens so far with [Q, n]: weights, up to a factor, 0 for a token that is not read.

        Where the single best slot is read: similarities, and -inf for a token that is not read.
        """

    def restricted(self, block: QueryBlock, visible: Mask) -> Floats:
        """The `shares` of a softmax over the tokens that `visible` [Q, n] marks for each query."""
        reading = self.config.reading
        if reading == "argmax":
            return np.where(visible, block.cosines, -np.inf)
        return np.where(visible, block.read_weights(reading), 0.0)

    def attends(self, c: int, block: AttentionBlock, phase: Phase) -> Floats | None:
        """Softmax numerators over the tokens that are read, where reading is `restricted` to some of them."""
        shares = self.shares(c, block, phase)
        return block.over(shares > (-np.inf if self.config.reading == "argmax" else 0.0))

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        """1 where the class read for a query is right, 0 where it is wrong, NaN where no token is read [C, Q]."""
        predicted = np.empty((len(self), len(block)), dtype=np.int64)
        for c in range(len(self)):
            shares = self.shares(c, block, phase)
            if self.config.reading == "argmax":
                read_best_share(shares, self.token_values, predicted[c])
            else:
                read_shares(shares, self.token_values, self.stream.classes, predicted[c])
        return scored(predicted, block, phase)

    def token_reader(self) -> Callable[[Floats, Ints], int]:
        """What answers one unit query [d] with a class from some of the tokens alone: O(tokens · d)."""
        keys, values = self.keys.astype(np.float32), self.token_values
        classes, reading = self.stream.classes, self.config.reading

        def read(query: Floats, tokens: Ints) -> int:
            if not len(tokens):
                return ABSTAINED
            cosines = keys[tokens] @ query.astype(np.float32)
            if reading == "argmax":
                return int(values[tokens[cosines.argmax()]])
            return int(np.bincount(values[tokens], np.exp((cosines - 1.0) / reading), classes).argmax())

        return read


@kernel
def read_shares(shares: Floats, values: Ints, classes: int, predicted: Ints) -> None:
    """Class with the largest share per query; ties to the lowest class; ABSTAINED where nothing is read.

    shares [Q, n], values [at least n], predicted [Q]
    """
    votes = np.empty(classes)
    for q in range(len(shares)):
        votes[:] = 0.0
        for token in range(shares.shape[1]):
            votes[values[token]] += shares[q, token]
        predicted[q] = winner(votes) if votes.max() > 0.0 else ABSTAINED


@kernel
def read_best_share(shares: Floats, values: Ints, predicted: Ints) -> None:
    """Class of the token with the largest share per query; ties to the oldest; ABSTAINED where nothing is read."""
    for q in range(len(shares)):
        best = -np.inf
        for share in shares[q]:
            best = max(best, share)
        predicted[q] = ABSTAINED
        for token in range(shares.shape[1]):
            if best > -np.inf and shares[q, token] >= best - TIE:
                predicted[q] = values[token]
                break


def foremost(scores: Floats, count: int) -> Mask:
    """Mask [r, n] of the `count` largest scores of each row of `scores` [r, n]; the first of those within TIE.

    All of them if there are no more than `count`, which is at least 1.
    """
    n = scores.shape[1]
    if count >= n:
        return np.ones(scores.shape, dtype=np.bool_)
    border = np.partition(scores, n - count, axis=1)[:, n - count, None]
    clear = scores > border + TIE
    tied = ~clear & (scores >= border - TIE)
    chosen: Mask = clear | (tied & (tied.cumsum(axis=1) <= count - clear.sum(axis=1, keepdims=True)))
    return chosen


def first_largest(scores: Floats) -> Ints:
    """Index [...] of the largest of `scores` [..., n]; the first of those within TIE."""
    first: Ints = (scores >= scores.max(axis=-1, keepdims=True) - TIE).argmax(axis=-1)
    return first


def reference_foremost(scores: Sequence[float] | Floats, count: int, trace: Trace) -> list[int]:
    """Indices, rising, of the `count` largest scores, the first within a tie; notes by how much they were chosen."""
    if count >= len(scores):
        return list(range(len(scores)))
    border = sorted(scores, reverse=True)[count - 1]
    clear = [i for i, score in enumerate(scores) if score > border + TIE]
    tied = [i for i, score in enumerate(scores) if abs(score - border) <= TIE]
    trace.decide(min((abs(score - border) for score in scores if abs(score - border) > TIE), default=np.inf))
    return sorted(clear + tied[: count - len(clear)])


def reference_first(scores: Sequence[float] | Floats, trace: Trace) -> int:
    """Index of the largest score, the first within a tie; notes by how much it was chosen."""
    return lowest([-float(score) for score in scores], trace, relative=False)


def reference_shares(cosines: Floats, tokens: Sequence[int], reading: ReadTemperature, trace: Trace) -> Floats:
    """How much of each token [n] is read by a query with these cosines [n] that sees `tokens` alone."""
    shares, seen = np.zeros(len(cosines)), list(tokens)
    if reading != "argmax":
        shares[seen] = np.exp((cosines[seen] - 1.0) / reading)
    elif seen:
        shares[seen[reference_first(cosines[seen], trace)]] = 1.0
    return shares


def keep_and_ask(stream: Stream, trace: Trace, shares: Callable[[Phase], Iterable[Floats]]) -> Trace:
    """`trace` of a memory that keeps all tokens, and whose queries read them with the `shares` [n] of their phase."""
    kept = keep_all(stream)
    trace.tokens, trace.values, trace.held, trace.peak = kept.tokens, kept.values, kept.held, kept.peak
    for phase in stream.phases:
        values = stream.values[: phase.end]
        trace.scores.append(np.array([np.bincount(values, row, stream.classes) for row in shares(phase)]))
    return trace
