"""What item caches have in common on a device."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from models.devices.allocation import AllocationForm
from models.item_cache import ItemCacheConfig

Item = TypeVar("Item", bound=ItemCacheConfig)


class ItemCacheForm(AllocationForm[Item]):
    """A full cache first gives up a slot, then the token opens one."""

    admits_newcomer: ClassVar[bool] = False

    def slot_cap(self, config: Item) -> int | None:
        return config.budget
