"""Belady's MIN on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from models.devices.allocation import AllocationForm
from models.devices.form import device_form
from models.devices.selection import lowest
from models.devices.stream_batch import StreamBatch
from models.mechanisms.belady import BeladyConfig, next_tokens

if TYPE_CHECKING:
    from torch import Tensor


@device_form(BeladyConfig)
class BeladyForm(AllocationForm[BeladyConfig]):
    """The slot leaves whose item's next token is farthest, the newcomer's included.

    items, following [B, L]: each token's item, numbered, and the next token of it
    upcoming [B, items]: each item's next token, now
    """

    def slot_cap(self, config: BeladyConfig) -> int:
        return config.budget

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        import torch

        super().start(streams, draws)
        known = [next_tokens(stream.items) for stream in streams.streams]
        length = streams.layout.length
        self.items, self.following = (
            torch.from_numpy(np.stack([one[n][:length] for one in known])).to(streams.device) for n in range(2)
        )
        most = max(len(stream) for stream in streams.streams)
        self.upcoming = torch.full((len(streams), most), most, dtype=torch.int64, device=streams.device)

    def use(self, t: int, used: Tensor, merged: Tensor) -> None:
        self.upcoming.scatter_(1, self.items[:, t, None], self.following[:, t, None])

    def victim(self, t: int, held: Tensor) -> Tensor:
        ahead = self.upcoming.gather(1, self.items[:, : held.shape[-1]])
        return lowest(-ahead[:, None].expand_as(held).to(self.tau.dtype), held, tie=0.0)
