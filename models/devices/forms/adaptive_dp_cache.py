"""The surprise-adaptive Dirichlet-process cache (Method II) on a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from models.devices import fused
from models.devices.allocation import LeastUsedForm
from models.devices.device import FLOAT32_TIE
from models.devices.form import device_form
from models.devices.stream_batch import StreamBatch
from models.mechanism import TIE
from models.mechanisms.adaptive_dp_cache import AdaptiveDPCacheConfig

if TYPE_CHECKING:
    from torch import Tensor


@device_form(AdaptiveDPCacheConfig)
class AdaptiveDPCacheForm(LeastUsedForm[AdaptiveDPCacheConfig]):
    """The novelty rate T [B, C] is held in 64 bits where the device has them, as caps are floors of M = m0 + beta T."""

    policy: ClassVar[int | None] = fused.ADAPTIVE

    def slot_cap(self, config: AdaptiveDPCacheConfig) -> int:
        return max(1, math.floor(config.m0 + config.beta + TIE))

    def log_decay(self, config: AdaptiveDPCacheConfig) -> float:
        return math.log(config.decay)

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        import torch

        super().start(streams, draws)
        wide = streams.precision.wide
        self.tie = TIE if wide == torch.float64 else FLOAT32_TIE
        self.eta, self.beta, self.m0 = (self.wide(name) for name in ("eta", "beta", "m0"))
        self.rate = torch.zeros(self.shape, dtype=wide, device=streams.device)
        self.least_cap = max(1, math.floor(min(config.m0 for config in self.configs)))

    def wide(self, name: str) -> Tensor:
        """The field `name` of each config [C]."""
        import torch

        values = [getattr(config, name) for config in self.configs]
        return torch.tensor(values, dtype=self.streams.precision.wide, device=self.streams.device)

    def fuse(self) -> fused.FusedAllocation:
        caps = fused.Caps(self.cap.int(), self.wide("eta"), self.wide("beta"), self.wide("m0"))
        return fused.FusedAllocation(self.streams, self.tau, self.fades(), caps, fused.ADAPTIVE, True, False)

    def evict(self, t: int, merged: Tensor) -> None:
        """Let slots leave while there are more than M."""
        self.rate = (1.0 - self.eta) * self.rate + self.eta * ~merged
        if t < self.least_cap:
            return
        cap = (self.m0 + self.beta * self.rate + self.tie).floor().clamp(min=1.0)
        while bool((self.now > cap).any()):
            self.close(self.victim(t, self.open[..., : t + 1]), self.now > cap)
