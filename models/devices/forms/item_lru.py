"""The item cache with least-recently-used eviction on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from models.devices import fused
from models.devices.form import device_form
from models.devices.item_cache import ItemCacheForm
from models.devices.selection import lowest
from models.mechanisms.item_lru import ItemLRUConfig

if TYPE_CHECKING:
    from torch import Tensor


@device_form(ItemLRUConfig)
class ItemLRUForm(ItemCacheForm[ItemLRUConfig]):
    """The oldest last use leaves."""

    policy: ClassVar[int | None] = fused.LEAST_RECENT

    def victim(self, t: int, held: Tensor) -> Tensor:
        return lowest(self.last[..., : held.shape[-1]], held, tie=0.0)
