"""Linear attention on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from models.devices.fixed_state import StateForm
from models.devices.form import device_form
from models.devices.stream_batch import StreamBatch
from models.mechanisms.linear_attention import LinearAttentionConfig

if TYPE_CHECKING:
    from torch import Tensor


@device_form(LinearAttentionConfig)
class LinearAttentionForm(StateForm[LinearAttentionConfig]):
    """`normaliser` [B, rows] is z, the sum of phi(k)."""

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        super().start(streams, draws)
        self.normaliser = streams.keys.new_zeros((len(streams), self.rows(streams.layout.dim)))

    def features(self, keys: Tensor) -> Tensor:
        if self.config.feature_map == "elu":
            return (keys + 1.0).where(keys > 0.0, keys.clamp(max=0.0).exp())
        return keys.clamp(min=0.0) if self.config.feature_map == "relu" else keys

    def query_features(self, queries: Tensor) -> Tensor:
        features = self.features(queries)
        if self.config.feature_map == "identity":
            return features
        totals = features @ self.normaliser[..., None]
        return (features / totals.where(totals > 0.0, 1.0)).where(totals > 0.0, 0.0)

    def update(self, features: Tensor, targets: Tensor) -> None:
        self.states += (features.transpose(1, 2) @ targets)[:, None]
        self.normaliser += features.sum(1)
