"""Memories that open a slot by novelty: their options, and the state that `allocate` reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from pydantic import Field, model_validator

from models.allocation import FIRST, MAJORITY, UNCAPPED, Records, Rule, allocate
from models.config import SlotConfig, round_number
from models.item_hits import UNCOUNTED, hits_metric
from models.mechanism import SlotMemory, Slots
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream

if TYPE_CHECKING:
    from models.long.memory import LongMemory
    from models.long.stream import LongStream


class NoveltyConfig(SlotConfig):
    """Options of memories that open a slot by novelty."""

    derived_fields: ClassVar[frozenset[str]] = frozenset({"similarity"})

    tau: float = Field(
        0.4,
        ge=-2.0,
        le=3.0,
        description="novelty threshold of Eq. 2: a slot opens when 1 - max cos(key, slot) > tau; below 0 always",
    )
    similarity: float = Field(0.6, ge=-2.0, le=3.0, description="1 - tau; may stand instead of tau, never beside it")

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


N = TypeVar("N", bound=NoveltyConfig)


class AllocationMemory(SlotMemory[N]):
    """Slots whose keys are first occurrences. Subclasses say which rule they follow."""

    policy: ClassVar[int]
    reads_long: ClassVar[bool] = True
    counts_hits: ClassVar[bool] = False
    """Whether it counts hits by item, which caches of items are judged by."""

    def slot_cap(self, config: N) -> int | None:
        """Most slots kept after a token; None for no limit."""
        return None

    def log_decay(self, config: N) -> float:
        """Logarithm of the factor on usage counters at each token."""
        return 0.0

    def keep(self) -> int:
        """Which value a slot holds after a merge."""
        return FIRST

    def capacity(self, config: N, length: int) -> int:
        """Cap and newcomer."""
        cap = self.slot_cap(config)
        return length if cap is None else min(cap + 1, length)

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        """Forget everything."""
        super().start(stream, rng)
        caps = [self.slot_cap(config) for config in self.configs]
        self.rule = Rule(
            tau=np.array([config.tau for config in self.configs]),
            cap=np.array([UNCAPPED if cap is None else cap for cap in caps], dtype=np.int64),
            log_decay=np.array([self.log_decay(config) for config in self.configs]),
            policy=self.policy,
            keep=self.keep(),
        )
        shape = self.slots.tokens.shape
        self.records = Records(
            score=np.zeros(shape),
            last=np.zeros(shape, dtype=np.int64),
            tally=np.zeros((*shape, stream.classes if self.keep() == MAJORITY else 0), dtype=np.int64),
            items=np.array(stream.items, dtype=np.int64) if self.counts_hits else UNCOUNTED,
            hits=np.zeros(len(self), dtype=np.int64),
        )

    def extras(self) -> dict[str, Floats]:
        """Hits by item, where they are counted."""
        return hits_metric(self.records.hits, self.stream) if self.counts_hits else {}

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        """Read tokens start..stop-1."""
        rows = similarities.rows(start, stop)
        self.allocate(rows, start, start, self.token_values, slice(None), self.slots, self.records)

    def allocate(
        self, rows: Floats, first: int, now: int, values: Ints, which: slice, slots: Slots, records: Records
    ) -> None:
        """Feed a block of tokens to the configs of `which`, whose state is in `slots` and `records`.

        rows [b, n]: the tokens' cosines with every token at hand; first: which of these is the block's first; now:
        tokens that came before the block; values [n]: of the tokens at hand.
        """
        allocate(rows, first, now, values, self.rule_of(which), slots, records)

    def rule_of(self, which: slice) -> Rule:
        """What the configs of `which` follow."""
        rule = self.rule
        return Rule(rule.tau[which], rule.cap[which], rule.log_decay[which], rule.policy, rule.keep)

    def long(self, stream: LongStream, rng: np.random.Generator) -> LongMemory[Any]:
        from models.long.allocation import LongAllocation

        return LongAllocation(self, stream, rng)
