"""The Dirichlet-process cache with a fixed novelty threshold (Method I) on a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from models.devices.allocation import LeastUsedForm, match
from models.devices.form import Questions, device_form
from models.devices.stream_batch import Layout, StreamBatch
from models.mechanisms.dp_cache import DPCacheConfig

if TYPE_CHECKING:
    from torch import Tensor


@device_form(DPCacheConfig)
class DPCacheForm(LeastUsedForm[DPCacheConfig]):
    """Under centroid keys a slot also has the sum of its members' keys [B, C, L, d] and that sum's length [B, C, L]."""

    def __init__(self, configs: Sequence[DPCacheConfig]) -> None:
        super().__init__(configs)
        self.keep = self.config.keep
        self.centroid = self.config.keys == "centroid"

    def slot_cap(self, config: DPCacheConfig) -> int | None:
        return config.cap

    def log_decay(self, config: DPCacheConfig) -> float:
        return math.log(config.decay)

    def fusible(self, most: int) -> bool:
        return not self.centroid and super().fusible(most)

    def numbers(self, layout: Layout) -> int:
        sums = 2 * (layout.dim + 1) * len(self.configs) * layout.length if self.centroid else 0
        return super().numbers(layout) + sums

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        super().start(streams, draws)
        if self.centroid:
            self.sums = streams.keys.new_zeros((*self.open.shape, streams.layout.dim))
            self.lengths = streams.keys.new_zeros(self.open.shape)

    def match(self, row: Tensor, t: int) -> tuple[Tensor, Tensor]:
        import torch

        if not self.centroid or t == 0:
            return super().match(row, t)
        key = self.streams.keys[:, t, :, None]
        products = torch.bmm(self.sums[..., :t, :].flatten(1, 2), key).view(*self.shape, t)
        cosines = self.per_length(products, self.lengths[..., :t])
        return match(cosines, self.open[..., :t], self.tau, self.streams.precision.tie)

    def learn(self, t: int, used: Tensor) -> None:
        super().learn(t, used)
        if self.centroid:
            place = used[..., None].expand(*self.shape, 1, self.streams.layout.dim)
            total = self.sums.gather(2, place) + self.streams.keys[:, None, t, None]
            self.sums.scatter_(2, place, total)
            self.lengths.scatter_(2, used, total.norm(dim=-1))

    def per_length(self, products: Tensor, lengths: Tensor) -> Tensor:
        """Cosines from products with sums. A sum that is zero but for rounding has no direction: its cosines are 0."""
        short = lengths <= self.streams.precision.tie
        return (products / lengths.masked_fill(short, 1.0)).masked_fill(short, 0.0)

    @property
    def reads_cosines(self) -> bool:
        return not self.centroid

    def query_cosines(self, questions: Questions, c: int) -> Tensor:
        import torch

        if not self.centroid:
            return super().query_cosines(questions, c)
        n = questions.cosines.shape[2]
        products = torch.bmm(questions.queries, self.sums[:, c, :n].transpose(1, 2))
        return self.per_length(products, self.lengths[:, c, None, :n])
