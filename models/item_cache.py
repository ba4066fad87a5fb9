"""Item caches: one slot an item, a fixed budget, and a classical eviction rule."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import numpy as np
from pydantic import Field

from models.allocation_memory import AllocationMemory, NoveltyConfig
from models.allocation_reference import reference_allocation
from models.config import MOST
from models.item_hits import HITS
from models.mechanism import Trace
from models.stream import Stream


class ItemCacheConfig(NoveltyConfig):
    """Options of item caches."""

    budget: int = Field(ge=0, le=MOST, description="most slots kept; 0 is no memory at all")


Item = TypeVar("Item", bound=ItemCacheConfig)


class ItemCache(AllocationMemory[Item]):
    """A token whose key is within `tau` of a stored one is a hit on the nearest slot, and the slot's value stays.

    Any other token is a miss: a full cache first gives up a slot, then the token opens one.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("budget", "tau", "similarity")
    counts_hits: ClassVar[bool] = True
    own_metrics: ClassVar[tuple[str, ...]] = (HITS,)

    def slot_cap(self, config: Item) -> int | None:
        """Most slots kept."""
        return config.budget

    @classmethod
    def reference(cls, stream: Stream, config: Item, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        """The same rule as a plain loop."""
        return reference_allocation(stream, tau=config.tau, cap=config.budget, policy=cls.policy, dtype=dtype)
