"""The item cache with least-frequently-used eviction on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from models.devices import fused
from models.devices.form import device_form
from models.devices.item_cache import ItemCacheForm
from models.devices.selection import lowest
from models.mechanisms.item_lfu import ItemLFUConfig

if TYPE_CHECKING:
    from torch import Tensor


@device_form(ItemLFUConfig)
class ItemLFUForm(ItemCacheForm[ItemLFUConfig]):
    """The fewest uses leave; ties to the oldest last use. Uses are whole numbers, exact in 32 bits up to 2^24."""

    policy: ClassVar[int | None] = fused.LEAST_FREQUENT

    def victim(self, t: int, held: Tensor) -> Tensor:
        n = held.shape[-1]
        uses = self.score[..., :n].masked_fill(~held, float("inf"))
        fewest = held & (uses == uses.amin(-1, keepdim=True))
        return lowest(self.last[..., :n], fewest, tie=0.0)
