"""The item cache with time-to-live eviction on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from models.devices import fused
from models.devices.allocation import AllocationForm
from models.devices.form import device_form
from models.devices.selection import first
from models.devices.stream_batch import StreamBatch
from models.mechanisms.item_ttl import ItemTTLConfig

if TYPE_CHECKING:
    from torch import Tensor


@device_form(ItemTTLConfig)
class ItemTTLForm(AllocationForm[ItemTTLConfig]):
    """A slot leaves `window` tokens after its last use; one at most at a token, as a token uses one slot."""

    policy: ClassVar[int | None] = fused.EXPIRING

    def slot_cap(self, config: ItemTTLConfig) -> int:
        return config.window

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        super().start(streams, draws)
        self.window = self.cap[:, None].to(streams.precision.number)

    def evict(self, t: int, merged: Tensor) -> None:
        if t < self.least_cap:
            return
        stale = self.victim(t, self.open[..., : t + 1])
        self.close(stale, stale <= t)

    def victim(self, t: int, held: Tensor) -> Tensor:
        return first(held & (t - self.last[..., : held.shape[-1]] == self.window))
