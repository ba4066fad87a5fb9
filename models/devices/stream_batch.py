"""Streams of one layout stacked on a device, with their cosines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from models.devices.device import DeviceClass, Precision
from models.stream import Stream, round_keys, unit

if TYPE_CHECKING:
    from torch import Tensor

ROW_TOKENS = 256
"""Most tokens in a block of rows."""

BLOCK_ELEMENTS = 1 << 26
"""Numbers in the largest intermediate, of any kind: 256 MiB in 32 bits."""


class Layout(NamedTuple):
    """What streams must have in common to be stacked.

    phases: of each phase its end, its number of queries, and how many of these count for `recall`
    """

    dim: int
    classes: int
    phases: tuple[tuple[int, int, int], ...]

    @property
    def length(self) -> int:
        """Tokens that are read: those before the last phase end."""
        return self.phases[-1][0]


def layout(stream: Stream) -> Layout:
    """The layout of `stream`."""
    phases = tuple((phase.end, len(phase.queries), len(phase.asked)) for phase in stream.phases)
    return Layout(stream.dim, stream.classes, phases)


@dataclass(frozen=True)
class BatchPhase:
    """A phase of B streams.

    queries  [B, Q, d]  unit query keys
    answers  [B, Q]     right classes
    asked    [B, A]     which of the queries count for `recall`
    """

    end: int
    queries: Tensor
    answers: Tensor
    asked: Tensor


class StreamBatch:
    """B streams of one layout on a device. Keys are rounded and scaled to length 1 on the host, in 64 bits.

    keys    [B, L, d]
    values  [B, L]
    """

    def __init__(self, streams: Sequence[Stream], device: DeviceClass, precision: Precision, dtype: str) -> None:
        import torch

        self.streams = tuple(streams)
        self.layout = layout(streams[0])
        self.device = device
        self.precision = precision
        length = self.layout.length

        def place(arrays: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]) -> Tensor:
            return torch.from_numpy(np.stack(arrays)).to(precision.number).to(device)

        def place_ints(arrays: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]) -> Tensor:
            return torch.from_numpy(np.stack(arrays).astype(np.int64)).to(device)

        self.keys = place([unit(round_keys(stream.keys[:length], dtype)) for stream in streams])
        self.values = place_ints([stream.values[:length] for stream in streams])
        self.phases = {
            phase.end: BatchPhase(
                phase.end,
                place([unit(stream.phases[n].queries) for stream in streams]),
                place_ints([stream.phases[n].answers for stream in streams]),
                place_ints([stream.phases[n].asked for stream in streams]),
            )
            for n, phase in enumerate(streams[0].phases)
        }
        self._rows: tuple[int, int, Tensor] | None = None

    def __len__(self) -> int:
        return len(self.streams)

    def segments(self) -> Iterator[tuple[int, int, BatchPhase | None]]:
        """Ranges `start, stop` that tile the streams, each with the phase that ends at `stop`, if one does."""
        size = max(1, min(ROW_TOKENS, BLOCK_ELEMENTS // (len(self) * self.layout.length)))
        for start, stop in pairwise(sorted({*range(0, self.layout.length, size), *self.phases})):
            yield start, stop, self.phases.get(stop)

    def rows(self, start: int, stop: int) -> Tensor:
        """Cosines [B, stop - start, stop] of tokens start..stop-1 with every token before `stop`."""
        import torch

        if self._rows is None or self._rows[:2] != (start, stop):
            self._rows = None  # two blocks at once would take twice the memory
            products = torch.bmm(self.keys[:, start:stop], self.keys[:, :stop].transpose(1, 2))
            self._rows = (start, stop, products)
        return self._rows[2]

    def query_blocks(self, phase: BatchPhase) -> Iterator[tuple[slice, Tensor]]:
        """Ranges of the phase's queries, each with its cosines [B, Q, end] with the tokens read so far."""
        import torch

        count = phase.queries.shape[1]
        size = max(1, BLOCK_ELEMENTS // (len(self) * phase.end))
        for start in range(0, count, size):
            part = slice(start, min(start + size, count))
            yield part, torch.bmm(phase.queries[:, part], self.keys[:, : phase.end].transpose(1, 2))
