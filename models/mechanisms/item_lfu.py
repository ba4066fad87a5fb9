"""Item cache with least-frequently-used eviction."""

from __future__ import annotations

from typing import ClassVar, Literal

from models.allocation import LEAST_FREQUENT
from models.item_cache import ItemCache, ItemCacheConfig
from models.mechanism import mechanism


class ItemLFUConfig(ItemCacheConfig):
    """One slot an item, least frequently used evicted (Mattson et al., IBM Syst. J. 9(2), 1970; items by Eq. 2)."""

    name: Literal["item_lfu"] = "item_lfu"


@mechanism(ItemLFUConfig)
class ItemLFU(ItemCache[ItemLFUConfig]):
    """Write O(B d), read O(B d). Ties: the oldest last use. A slot notes its uses and its last use.

    An evicted item's count is lost, and counts never fade: an item used often long ago stays, where `dp_cache` with a
    `cap` and a `decay` forgets it.
    """

    policy: ClassVar[int] = LEAST_FREQUENT
    metadata_bytes: ClassVar[int] = 8
