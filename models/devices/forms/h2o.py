"""The heavy-hitter oracle on a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.devices.form import device_form
from models.devices.selection import largest, lowest
from models.devices.stream_batch import Layout, StreamBatch
from models.devices.token_memory import OnlineForm, attention_received
from models.mechanisms.h2o import H2OConfig


@device_form(H2OConfig)
class H2OForm(OnlineForm[H2OConfig]):
    """`score` [B, C, L] is the attention a slot has drawn, at the place of its token.

    A protected slot is one of the newest tokens: each of them was safe from its arrival on, so they are all held.
    """

    def numbers(self, layout: Layout) -> int:
        return 3 * super().numbers(layout)

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        super().start(streams, draws)
        self.score = streams.keys.new_zeros(self.open.shape)
        protected = self.per_config([config.protected for config in self.configs])
        self.protected = protected[:, None]
        self.tie = streams.precision.tie_of_shares(self.config.temperature)
        self.fused = None
        if self.config.variant in ("heavy_hitter", "half_recent"):
            self.fused = self.fuse(protected, self.config.temperature, self.tie, summed=True)

    def write(self, start: int, stop: int) -> None:
        if self.config.variant == "observed_mean":
            self.append(start, stop)
            self.observe(start, stop)
        else:
            super().write(start, stop)

    def update(self, start: int, stop: int) -> None:
        import torch

        if self.fused is not None:
            self.open = self.fused.update(start, stop)
            return
        rows, budgets = self.streams.rows(start, stop) / self.config.temperature, self.budgets()
        ages = torch.arange(stop - 1, -1, -1, device=self.open.device)
        for t in range(start, stop):
            self.open[..., t] = True
            held, score = self.open[..., : t + 1], self.score[..., : t + 1]
            row = rows[:, None, t - start, : t + 1].masked_fill(~held, float("-inf"))
            score += row.softmax(-1)
            if not self.config.own_mass:
                score[..., t] = 0.0
            victim = lowest(score, held & (ages[-t - 1 :] >= self.protected), self.tie, relative=True)
            victim = victim.clamp(max=t)[..., None]  # none could leave where all are protected, and none has to
            self.open.scatter_(2, victim, (budgets > t)[:, None].expand_as(victim))

    def observe(self, start: int, stop: int) -> None:
        """Add the attention of tokens start..stop-1, none of which has been dropped."""
        rows = self.streams.rows(start, stop)
        for c in range(len(self.configs)):
            received = attention_received(rows, start, self.open[:, c, :stop], self.config.temperature)
            self.score[:, c, :stop] += received

    def settle(self, stop: int) -> None:
        import torch

        if self.config.variant != "observed_mean":
            return
        ages = torch.arange(stop, 0, -1, device=self.open.device)
        means = self.score[..., :stop] / ages
        budgets = self.budgets().expand(self.shape)
        self.open[..., :stop] = largest(means, self.open[..., :stop], budgets, self.tie)
