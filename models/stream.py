"""Streams: the tokens a memory is given, and the queries it must answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DTYPES = ("float32", "float16", "bfloat16", "float64")
KEY_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}


class StreamError(ValueError):
    """A stream that no memory can be given: keys that are not finite, shapes that do not fit."""


@dataclass(frozen=True)
class Phase:
    """Queries asked once the first `end` tokens have been written.

    queries  [Q, d]  query keys
    answers  [Q]     right class of each query
    items    [Q]     item each query asks for
    asked    [A]     which of the queries count for `recall` (one drawn at random, or all of them)
    """

    end: int
    queries: Floats
    answers: Ints
    items: Ints
    asked: Ints


@dataclass(frozen=True)
class Attention:
    """The attention behind a stream's keys and queries, as a model has it: what cosines leave out.

    values   [L, dv]  value vector of each token; None where only classes are known
    scale             factor on products of queries and keys, 1/sqrt(d) as a rule
    """

    values: Floats | None
    scale: float


@dataclass(frozen=True)
class Stream:
    """Tokens in order of arrival, and the phases at whose ends a memory is asked.

    keys     [L, d]  one key a token
    values   [L]     class stored with each key, in 0..classes-1
    items    [L]     identity of the distinct thing behind each token; mechanisms never see it, bounds and tests do
    chance           probability that a guess without memory is right
    lines    [L]     words of each token's log line; None where the stream is not a log
    attention        what its keys and queries are of; None where they are of no attention layer
    """

    keys: Floats
    values: Ints
    items: Ints
    phases: tuple[Phase, ...]
    classes: int
    chance: float
    lines: tuple[tuple[str, ...], ...] | None = None
    attention: Attention | None = None

    def __post_init__(self) -> None:
        length = len(self.keys)
        if self.keys.ndim != 2 or self.values.shape != (length,) or self.items.shape != (length,):
            raise StreamError(
                f"a stream needs keys [L, d], values [L] and items [L]; got {self.keys.shape}, "
                f"{self.values.shape}, {self.items.shape}"
            )
        if not np.isfinite(self.keys).all():
            first = int(np.flatnonzero(~np.isfinite(self.keys).all(axis=1))[0])
            raise StreamError(f"the key of token {first} is not finite")
        if length and not (self.values.min() >= 0 and self.values.max() < self.classes):
            raise StreamError(f"values must be classes in 0..{self.classes - 1}")
        if self.lines is not None and len(self.lines) != length:
            raise StreamError(f"a log needs a line for each of its {length} tokens; got {len(self.lines)}")
        ends = [phase.end for phase in self.phases]
        if not ends or ends != sorted(set(ends)) or ends[0] < 1 or ends[-1] > length:
            raise StreamError(f"phase ends must rise within 1..{length}; got {ends}")
        for phase in self.phases:
            count = len(phase.queries)
            if phase.queries.shape != (count, self.dim) or phase.answers.shape != (count,):
                shapes = f"{phase.queries.shape}, {phase.answers.shape}"
                raise StreamError(f"a phase needs queries [Q, {self.dim}] and answers [Q]; got {shapes}")
            if not np.isfinite(phase.queries).all():
                raise StreamError(f"a query of the phase ending at token {phase.end} is not finite")

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def dim(self) -> int:
        """Width d of a key."""
        return int(self.keys.shape[1])

    @property
    def value_width(self) -> int:
        """Width dv of tokens' value vectors; 0 where values are classes alone."""
        return 0 if self.attention is None or self.attention.values is None else self.attention.values.shape[1]

    @cached_property
    def distinct(self) -> int:
        """Number K of distinct items in the stream."""
        return len(np.unique(self.items))

    def distinct_until(self, end: int) -> int:
        """Number of distinct items among the first `end` tokens."""
        return int(np.searchsorted(self._first_seen, end))

    @cached_property
    def _first_seen(self) -> Ints:
        """Token at which each distinct item comes first, rising."""
        return np.sort(np.unique(self.items, return_index=True)[1])


def round_keys(keys: Floats, dtype: str) -> Floats:
    """`keys` as a memory of `dtype` would store them, held in float64. Raises KeyError for an unknown dtype."""
    if dtype == "float64":
        return np.ascontiguousarray(keys, dtype=np.float64)
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(keys, dtype=np.float32).view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return rounded.view(np.float32).astype(np.float64)
    return keys.astype({"float32": np.float32, "float16": np.float16}[dtype]).astype(np.float64)


def unit(keys: Floats) -> Floats:
    """Rows scaled to length 1. A zero row stays zero: its cosine with everything, itself included, is 0."""
    norms = np.sqrt(np.einsum("ij,ij->i", keys, keys))[:, None]
    scaled: Floats = np.divide(keys, norms, out=np.zeros_like(keys), where=norms > 0)
    return scaled
