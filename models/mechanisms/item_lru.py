"""Item cache with least-recently-used eviction."""

from __future__ import annotations

from typing import ClassVar, Literal

from models.allocation import LEAST_RECENT
from models.item_cache import ItemCache, ItemCacheConfig
from models.mechanism import mechanism


class ItemLRUConfig(ItemCacheConfig):
    """One slot an item, least recently used evicted (Mattson et al., IBM Syst. J. 9(2), 1970; items by Eq. 2)."""

    name: Literal["item_lru"] = "item_lru"


@mechanism(ItemLRUConfig)
class ItemLRU(ItemCache[ItemLRUConfig]):
    """Write O(B d), read O(B d). No two slots were last used at once, so nothing ties. A slot notes its last use."""

    policy: ClassVar[int] = LEAST_RECENT
    metadata_bytes: ClassVar[int] = 4
