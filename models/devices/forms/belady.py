"""Belady's MIN on a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.devices.form import SlotForm, device_form
from models.devices.stream_batch import StreamBatch
from models.mechanisms.belady import Belady, BeladyConfig


@device_form(BeladyConfig)
class BeladyForm(SlotForm[BeladyConfig]):
    """It looks at items and compares no keys, so the host says which slots are open, stream by stream."""

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        super().start(streams, draws)
        self.caches = [Belady(self.configs) for _ in streams.streams]
        for cache, stream, rng in zip(self.caches, streams.streams, draws, strict=True):
            cache.start(stream, rng)

    def write(self, start: int, stop: int) -> None:
        import torch

        held = np.zeros(tuple(self.open.shape), dtype=bool)
        for cache, memories in zip(self.caches, held, strict=True):
            cache.see(start, stop)
            for c, count in enumerate(cache.counts()):
                memories[c, cache.slots.tokens[c, :count]] = True
        self.open.copy_(torch.from_numpy(held))
        usages = [cache.usage() for cache in self.caches]
        self.used.copy_(torch.from_numpy(np.stack([usage.held for usage in usages])))
        self.peak.copy_(torch.from_numpy(np.stack([usage.peak for usage in usages])))
