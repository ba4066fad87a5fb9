"""Token omission via attention on a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.devices.form import device_form
from models.devices.selection import lowest
from models.devices.stream_batch import StreamBatch
from models.devices.token_memory import OnlineForm
from models.mechanisms.tova import TOVAConfig


@device_form(TOVAConfig)
class TOVAForm(OnlineForm[TOVAConfig]):
    """The slot that the newest token attends to least leaves; ties: the oldest."""

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        super().start(streams, draws)
        none_safe = self.per_config([0.0 for _ in self.configs])
        self.fused = self.fuse(none_safe, 1.0, streams.precision.tie, summed=False)

    def update(self, start: int, stop: int) -> None:
        if self.fused is not None:
            self.open = self.fused.update(start, stop)
            return
        rows, budgets = self.streams.rows(start, stop), self.budgets()
        for t in range(start, stop):
            self.open[..., t] = True
            held = self.open[..., : t + 1]
            row = rows[:, None, t - start, : t + 1].expand_as(held)
            victim = lowest(row, held, self.streams.precision.tie)[..., None]
            self.open.scatter_(2, victim, (budgets > t)[:, None].expand_as(victim))
