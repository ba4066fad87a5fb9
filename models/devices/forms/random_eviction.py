"""Random eviction on a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.devices.form import device_form
from models.devices.stream_batch import StreamBatch
from models.devices.token_memory import OnlineForm
from models.mechanisms.random_eviction import RandomEvictionConfig, sample


@device_form(RandomEvictionConfig)
class RandomEvictionForm(OnlineForm[RandomEvictionConfig]):
    """The draws are the trial's own, and nothing depends on a key: the host keeps the reservoirs, exactly as alone."""

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        super().start(streams, draws)
        length = streams.layout.length
        self.budget = np.array([min(config.budget, length) for config in self.configs], dtype=np.int64)
        width = int(self.budget.max()) + 1
        self.draws = [rng.random(len(stream)) for rng, stream in zip(draws, streams.streams, strict=True)]
        self.reservoirs = np.zeros((len(streams), len(self.configs), width), dtype=np.int64)

    def update(self, start: int, stop: int) -> None:
        for draws, reservoir in zip(self.draws, self.reservoirs, strict=True):
            sample(draws[start:stop], start, stop, self.budget, reservoir)

    def settle(self, stop: int) -> None:
        import torch

        held = np.zeros(self.open.shape, dtype=bool)
        for c, budget in enumerate(self.budget):
            np.put_along_axis(held[:, c], self.reservoirs[:, c, : min(stop, budget)], True, axis=1)
        self.open = torch.from_numpy(held).to(self.open.device)
