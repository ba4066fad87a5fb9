"""SnapKV on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.devices.form import device_form
from models.devices.selection import largest
from models.devices.stream_batch import ROW_TOKENS
from models.devices.token_memory import TokenForm, attention_received
from models.mechanisms.snapkv import POOL, SnapKVConfig

if TYPE_CHECKING:
    from torch import Tensor


@device_form(SnapKVConfig)
class SnapKVForm(TokenForm[SnapKVConfig]):
    """How many slots are held depends on budgets and phase ends alone, so it is the same for all streams."""

    def settle(self, stop: int) -> None:
        counts = self.counts()[0].tolist()
        for c, (config, count) in enumerate(zip(self.configs, counts, strict=True)):
            held = self.open[:, c, :stop]
            rank = held.cumsum(-1)
            if count <= config.budget:
                continue
            if config.budget <= config.window:
                held &= rank > count - config.budget
                continue
            others = count - config.window
            rest, window = held & (rank <= others), held & (rank > others)
            self.open[:, c, :stop] = self.attended(rest, others, held, stop, config.budget - config.window) | window

    def attended(self, rest: Tensor, others: int, held: Tensor, stop: int, count: int) -> Tensor:
        """The `count` of the `rest` [B, stop], of which there are `others`, that the window attends to most."""
        import torch

        scores = self.scores(held, stop)
        tokens = torch.arange(stop, device=rest.device)
        slots = torch.where(rest, tokens, stop).sort(-1).values[:, :others]
        compact = scores.gather(1, slots)
        if self.config.pooling:
            compact = torch.nn.functional.avg_pool1d(compact[:, None], POOL, stride=1, padding=POOL // 2)[:, 0]
        wanted = torch.full((len(rest),), count, device=rest.device)
        tie = self.streams.precision.tie_of_shares(self.config.temperature)
        kept = largest(compact, torch.ones_like(compact, dtype=torch.bool), wanted, tie)
        return torch.zeros_like(rest).scatter(1, slots, kept)

    def scores(self, held: Tensor, stop: int) -> Tensor:
        """Attention [B, stop] that the slots draw from the window's tokens."""
        import torch

        scores = torch.zeros(held.shape, dtype=self.streams.precision.number, device=held.device)
        for start in range(stop - self.config.window, stop, ROW_TOKENS):
            end = min(start + ROW_TOKENS, stop)
            rows = self.streams.rows(start, end)
            scores[:, :end] += attention_received(rows, start, held[:, :end], self.config.temperature)
        return scores
