"""Dirichlet-process cache with a fixed novelty threshold (Method I)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from models.allocation import KEEP, LEAST_USED, UNCAPPED, allocate, reference_allocation
from models.allocation_centroid import allocate_centroid
from models.config import MechanismConfig, round_number
from models.mechanism import Contents, SlotMemory, Trace, mechanism
from models.similarity import Similarities
from models.stream import Stream


class NoveltyConfig(MechanismConfig):
    """Options of memories that open a slot by novelty."""

    derived_fields: ClassVar[frozenset[str]] = frozenset({"similarity"})

    tau: float = Field(
        0.4,
        ge=-2.0,
        le=3.0,
        description="novelty threshold of Eq. 2: a slot opens when 1 - max cos(key, slot) > tau; below 0 every token opens one",
    )
    similarity: float = Field(
        0.6, ge=-2.0, le=3.0, description="1 - tau; may stand instead of tau, never beside it"
    )

    @model_validator(mode="before")
    @classmethod
    def _one_threshold(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if "tau" in data and "similarity" in data:
            raise ValueError("`tau` and `similarity` = 1 - tau are one threshold: give one of them")
        for given, other in (("similarity", "tau"), ("tau", "similarity")):
            if isinstance(data.get(given), int | float) and not isinstance(data[given], bool):
                return {**data, other: round_number(1.0 - data[given])}
        return data


class DPCacheConfig(NoveltyConfig):
    """Dirichlet-process cache, Method I: open a slot for a key unlike all stored ones (arXiv 2607.09889, Eqs. 1-3)."""

    name: Literal["dp_cache"] = "dp_cache"
    keep: Literal["first", "last", "majority"] = Field(
        "first", description="value kept when a token merges; a tied majority keeps the value it has"
    )
    keys: Literal["first", "centroid"] = Field(
        "first", description="slot key: its first occurrence, or the normalised sum of all its members"
    )
    cap: int | None = Field(None, ge=1, description="most slots kept; beyond it the least-used slot is evicted")
    decay: float = Field(1.0, gt=0.0, le=1.0, description="factor on every slot's usage counter at each token")


@mechanism(DPCacheConfig)
class DPCache(SlotMemory[DPCacheConfig]):
    """Write O(m d), read O(m d), m slots for about K distinct items.

    The first token always opens a slot. Equal cosines merge into the oldest slot. With a cap, the newcomer enters with
    usage 1 and the slot of smallest usage leaves, the oldest on a tie; it may be the newcomer.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("tau", "similarity", "cap", "decay")

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        configs, shape = self.configs, self.tokens.shape
        self.tau = np.array([config.tau for config in configs])
        self.cap = np.array([config.cap or UNCAPPED for config in configs], dtype=np.int64)
        self.log_decay = np.array([math.log(config.decay) for config in configs])
        self.score = np.zeros(shape)
        self.last = np.zeros(shape, dtype=np.int64)
        majority = self.config.keep == "majority"
        self.tally = np.zeros((*shape, stream.classes if majority else 0), dtype=np.int64)
        centroid = self.config.keys == "centroid"
        self.sums = np.zeros((len(configs), stream.dim if centroid else 0, shape[1]))
        self.lengths = np.zeros(shape if centroid else (len(configs), 0))

    def capacity(self, config: DPCacheConfig, length: int) -> int:
        return length if config.cap is None else min(config.cap + 1, length)

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        rule = (self.tau, self.cap, self.log_decay, LEAST_USED, KEEP[self.config.keep])
        state = (self.tokens, self.values, self.counts_, self.usage_.held, self.usage_.peak)
        extra = (self.score, self.last, self.tally)
        if self.config.keys == "centroid":
            allocate_centroid(
                similarities.keys[start:stop], start, self.stream.values, *rule, *state, *extra, self.sums, self.lengths
            )
        else:
            allocate(similarities.rows(start, stop), start, self.stream.values, *rule, *state, *extra)

    def contents(self) -> Contents:
        if self.config.keys == "first":
            return super().contents()
        lengths = np.where(self.lengths > 0, self.lengths, 1.0)[:, None, :]
        keys = np.ascontiguousarray((self.sums / lengths).transpose(0, 2, 1))
        return Contents(self.tokens, self.values, self.counts_, keys)

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, int]:
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
