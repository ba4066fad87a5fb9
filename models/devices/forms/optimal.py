"""The bound OPT on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from models.devices.form import DeviceForm, Questions, device_form
from models.devices.stream_batch import Layout, StreamBatch
from models.mechanisms.optimal import Optimal, OptimalConfig
from models.stream import Ints

if TYPE_CHECKING:
    from torch import Tensor


@device_form(OptimalConfig)
class OptimalForm(DeviceForm[OptimalConfig]):
    """It counts items and compares no keys, so the host does it, stream by stream."""

    def numbers(self, layout: Layout) -> int:
        return len(self.configs)

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        self.streams = streams
        self.bounds = [Optimal(self.configs) for _ in streams.streams]
        for bound, stream, rng in zip(self.bounds, streams.streams, draws, strict=True):
            bound.start(stream, rng)

    def write(self, start: int, stop: int) -> None:
        for bound in self.bounds:
            bound.see(start, stop)

    def counts(self) -> Tensor:
        return self.placed([bound.counts() for bound in self.bounds])

    def usage(self) -> tuple[Tensor, Tensor]:
        usages = [bound.usage() for bound in self.bounds]
        return self.placed([usage.held for usage in usages]), self.placed([usage.peak for usage in usages])

    def answer(self, questions: Questions) -> Tensor:
        import torch

        rows = np.stack([bound.bound() for bound in self.bounds])
        expected = torch.from_numpy(rows).to(self.streams.precision.wide).to(self.streams.device)
        return expected[..., None].expand(-1, -1, questions.answers.shape[1])

    def placed(self, rows: Sequence[Ints]) -> Tensor:
        """One row [C] a stream, on the device [B, C]."""
        import torch

        return torch.from_numpy(np.stack(rows)).to(self.streams.device)
