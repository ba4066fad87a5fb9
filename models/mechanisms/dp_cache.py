"""Dirichlet-process cache with a fixed novelty threshold (Method I)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from models.allocation import FIRST, LAST, LEAST_USED, MAJORITY, follow
from models.allocation_centroid import allocate_centroid
from models.allocation_memory import AllocationMemory, NoveltyConfig
from models.allocation_reference import reference_allocation
from models.blocked import BlockedBuild, Built, build_slots, naive_build_slots
from models.config import MOST, MechanismConfig
from models.mechanism import TIE, Contents, Trace, mechanism
from models.similarity import Similarities
from models.stream import Floats, Stream, round_keys

if TYPE_CHECKING:
    from models.long.memory import LongMemory
    from models.long.stream import LongStream

LONG_STREAM = 4096
"""Tokens from which on the cosines of all pairs of tokens cost more than those of tokens with slots."""


class DPCacheConfig(NoveltyConfig):
    """Dirichlet-process cache, Method I: open a slot for a key unlike all stored ones (arXiv 2607.09889, Eqs. 1-3)."""

    name: Literal["dp_cache"] = "dp_cache"
    keep: Literal["first", "last", "majority"] = Field(
        "first", description="value kept when a token merges; a tied majority keeps the value it has"
    )
    keys: Literal["first", "centroid"] = Field(
        "first", description="slot key: its first occurrence, or the normalised sum of all its members"
    )
    cap: int | None = Field(
        None, ge=1, le=MOST, description="most slots kept; beyond it the least-used slot is evicted"
    )
    decay: float = Field(1.0, gt=0.0, le=1.0, description="factor on every slot's usage counter at each token")


@mechanism(DPCacheConfig)
class DPCache(AllocationMemory[DPCacheConfig]):
    """Write O(m d), read O(m d), m slots for about K distinct items.

    The first token always opens a slot. Equal cosines merge into the oldest slot. With a cap, the newcomer enters with
    usage 1 and the slot of smallest usage leaves, the oldest on a tie; it may be the newcomer.

    Long streams are read by the blocked build where it applies, short ones from the cosines that all mechanisms share.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("tau", "similarity", "cap", "decay")
    policy: ClassVar[int] = LEAST_USED

    @classmethod
    def group_key(cls, config: MechanismConfig) -> tuple[Any, ...]:
        """Configs with equal keys run as one group; those with a cap apart, as their slots carry a usage counter."""
        return (getattr(config, "cap", None) is None, *super().group_key(config))

    def slot_cap(self, config: DPCacheConfig) -> int | None:
        return config.cap

    def log_decay(self, config: DPCacheConfig) -> float:
        return math.log(config.decay)

    def keep(self) -> int:
        return {"first": FIRST, "last": LAST, "majority": MAJORITY}[self.config.keep]

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        size, width = self.slots.tokens.shape
        if self.config.keys == "centroid":
            self.sums = np.zeros((size, stream.dim, width))
            self.lengths = np.zeros((size, width))
        self.blocked: list[BlockedBuild] = []
        self.settled = 0

    def _in_blocks(self, stream: Stream) -> bool:
        return self.config.keys == "first" and self.config.cap is None and len(stream) >= LONG_STREAM

    def compares(self, stream: Stream) -> bool:
        return self.config.keys == "first" and not self._in_blocks(stream)

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        if self._in_blocks(self.stream):
            return  # blocks are longer than segments: `settle` reads all of a phase
        if self.config.keys == "first":
            super().write(similarities, start, stop)
            return
        keys = similarities.keys[start:stop]
        state = (self.rule, self.slots, self.records)
        allocate_centroid(keys, start, start, self.token_values, *state, self.sums, self.lengths)

    def settle(self, similarities: Similarities, stop: int) -> None:
        if not self._in_blocks(self.stream):
            return
        self.blocked = self.blocked or [BlockedBuild(similarities.keys, config.tau) for config in self.configs]
        for c, build in enumerate(self.blocked):
            build.read(self.settled, stop)
            tokens = (build.assignment, self.settled, stop)
            follow(*tokens, self.token_values, self.rule.keep, c, self.slots, self.records.tally[c])
        self.settled = stop

    def long(self, stream: LongStream, rng: np.random.Generator) -> LongMemory[Any]:
        from models.long.build import LongBuild, LongCentroids

        if self.config.keys == "centroid":
            return LongCentroids(self, stream, rng)
        return super().long(stream, rng) if self.config.cap is not None else LongBuild(self, stream, rng)

    def builds(self, stream: Stream, dtype: str, rng: np.random.Generator) -> dict[str, Callable[[], None]]:
        """Alone, first-occurrence keys without a cap are built block by block; `build_naive` goes token by token."""
        config = self.config
        if config.keys != "first" or config.cap is not None or config.keep != "first":
            return super().builds(stream, dtype, rng)
        keys = round_keys(stream.keys[: stream.phases[-1].end], dtype)

        def build(by: Callable[[Floats, float], Built]) -> None:
            tokens = by(keys, config.tau).slots
            self.start(stream, rng)
            self.slots.tokens[0, : len(tokens)] = tokens
            self.slots.values[0, : len(tokens)] = stream.values[tokens]
            self.slots.counts[0] = len(tokens)

        return {"build": partial(build, build_slots), "build_naive": partial(build, naive_build_slots)}

    def contents(self) -> Contents:
        if self.config.keys == "first":
            return super().contents()
        lengths = self.lengths[:, None]
        directions = np.divide(self.sums, lengths, where=lengths > TIE, out=np.zeros_like(self.sums))
        return replace(super().contents(), keys=np.ascontiguousarray(directions.transpose(0, 2, 1)))

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, int]:
        """A usage counter of 4 bytes a slot under a cap, and counts of 4 bytes a class for the majority."""
        body, _ = super().bytes_per_slot(dim, key_bytes)
        usage = 4 if self.config.cap is not None else 0
        tally = 4 * self.stream.classes if self.config.keep == "majority" else 0
        return body, usage + tally

    @classmethod
    def reference(
        cls, stream: Stream, config: DPCacheConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        return reference_allocation(
            stream,
            tau=config.tau,
            cap=config.cap,
            decay=config.decay,
            policy=LEAST_USED,
            keep=config.keep,
            centroid=config.keys == "centroid",
            dtype=dtype,
        )
