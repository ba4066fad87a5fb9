"""Memories that are updated token by token, by one Triton kernel a block of tokens instead of some launches a token.

Used on CUDA where triton is installed, and for tests under triton's interpreter. Where it cannot be used, for keys in
64 bits or memories of more slots than registers hold, say, the forms' own torch loops do the same.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from models.devices.device import FLOAT32_TIE, DeviceClass
from models.devices.stream_batch import StreamBatch
from models.mechanism import TIE

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)

MOST_SLOTS = 4096
"""Slots of a memory that one program holds in registers."""

LEAST_USED, LEAST_RECENT, LEAST_FREQUENT, EXPIRING, ADAPTIVE = range(5)
"""What leaves: as in `models.devices.triton_kernels`."""


def usable(streams: StreamBatch, most: int) -> bool:
    """Whether Triton kernels can read `streams` into memories of at most `most` slots."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    here = streams.device == "cuda" or (streams.device == "cpu" and interpreted)
    fits = most < MOST_SLOTS and streams.keys.element_size() == 4
    return here and fits and works(streams.device)


@cache
def works(device: DeviceClass) -> bool:
    """Whether a Triton kernel runs on `device` here. Tried once, as that takes more than triton: a C compiler, say."""
    if importlib.util.find_spec("triton") is None:
        return False
    import torch

    place = torch.zeros(1, dtype=torch.int32, device=device)
    try:
        from models.devices.triton_kernels import mark

        mark[(1,)](place)
        return bool(place.item())
    except Exception as error:
        log.warning("Triton kernels cannot run on this %s, and slower loops take their place: %s", device, error)
        return False


def warps(width: int) -> int:
    """Warps of a program with `width` places: one as long as it can, as they wait for each other at each reduction."""
    return 1 if width <= 512 else 4 if width <= 2048 else 8


def width_of(most: int) -> int:
    """Places, a power of two, for `most` slots and a newcomer."""
    return 1 << max(4, most.bit_length())


def mask(tokens: Tensor, counts: Tensor, length: int) -> Tensor:
    """Slots [B, C, width] in use, `counts` [B, C] of them, as a mask [B, C, length] over the tokens they store."""
    import torch

    in_use = torch.arange(tokens.shape[2], device=tokens.device) < counts[..., None]
    places = tokens.long().where(in_use, length)
    over_one = torch.zeros((*tokens.shape[:2], length + 1), dtype=torch.bool, device=tokens.device)
    return over_one.scatter_(2, places, True)[..., :length]


@dataclass(frozen=True)
class Caps:
    """Caps of C memories: `cap` [C], or where they adapt floor(m0 + beta T), with T following at rate eta [C]."""

    cap: Tensor
    eta: Tensor
    beta: Tensor
    m0: Tensor


class FusedAllocation:
    """The slots of an `AllocationForm`'s B x C memories, of at most `most` slots."""

    def __init__(
        self, streams: StreamBatch, tau: Tensor, fading: Tensor, caps: Caps, policy: int, bounded: bool, keep_last: bool
    ) -> None:
        import torch

        self.streams, self.tau, self.fading, self.caps = streams, tau, fading, caps
        self.policy, self.bounded, self.keep_last = policy, bounded, keep_last
        self.shape = (len(streams), len(tau))
        self.width = width_of(int(caps.cap.max()))
        places = (*self.shape, self.width)
        self.tokens, self.values, self.last = torch.zeros((3, *places), dtype=torch.int32, device=streams.device)
        self.score = torch.zeros(places, dtype=streams.precision.number, device=streams.device)
        self.counts = torch.zeros(self.shape, dtype=torch.int32, device=streams.device)
        self.rate = torch.zeros(self.shape, dtype=caps.eta.dtype, device=streams.device)

    def write(self, start: int, stop: int) -> Tensor:
        """Read tokens start..stop-1; slots in use after each [B, C, stop - start]."""
        import torch

        from models.devices.triton_kernels import allocate

        rows, caps, streams = self.streams.rows(start, stop), self.caps, self.streams
        held = torch.empty((*self.shape, stop - start), dtype=torch.int32, device=rows.device)
        tie = TIE if self.rate.dtype == torch.float64 else FLOAT32_TIE
        allocate[(self.shape[0] * self.shape[1],)](
            rows, rows.stride(1), rows.stride(0), streams.values, streams.layout.length, start, stop - start,
            self.tau, caps.cap, self.fading, caps.eta, caps.beta, caps.m0, 1.0 - streams.precision.tie, tie,
            self.tokens, self.values, self.last, self.score, self.counts, self.rate, held,
            self.shape[1], policy=self.policy, keep_last=self.keep_last, bounded=self.bounded, width=self.width,
            num_warps=warps(self.width),
        )  # fmt: skip
        return held.long()

    def open(self) -> Tensor:
        """Tokens whose keys slots store [B, C, L]."""
        return mask(self.tokens, self.counts, self.streams.layout.length)

    def learned(self) -> Tensor:
        """What slots hold, at the places of their tokens [B, C, L]; a token's own value where no slot is."""
        import torch

        length = self.streams.layout.length
        in_use = torch.arange(self.width, device=self.tokens.device) < self.counts[..., None]
        own = torch.nn.functional.pad(self.streams.values, (0, 1))[:, None].repeat(1, self.shape[1], 1)
        return own.scatter(2, self.tokens.long().where(in_use, length), self.values.long())[..., :length]


class FusedEviction:
    """The slots of B x C memories of raw tokens that evict by attention."""

    def __init__(
        self, streams: StreamBatch, budgets: Tensor, protected: Tensor, temperature: float, tie: float, summed: bool
    ) -> None:
        import torch

        self.streams, self.budgets, self.protected = streams, budgets.int(), protected.int()
        self.temperature, self.tie, self.summed = temperature, tie, summed
        self.width = width_of(int(budgets.max()))
        places = (len(streams), len(budgets), self.width)
        self.tokens = torch.zeros(places, dtype=torch.int32, device=streams.device)
        self.score = torch.zeros(places, dtype=streams.precision.number, device=streams.device)

    def update(self, start: int, stop: int) -> Tensor:
        """Read tokens start..stop-1; which tokens are held then [B, C, L]."""
        from models.devices.triton_kernels import evict_unattended

        rows, (streams, configs, _) = self.streams.rows(start, stop), self.tokens.shape
        evict_unattended[(streams * configs,)](
            rows, rows.stride(1), rows.stride(0), start, stop - start, self.budgets, self.protected,
            self.temperature, self.tie, self.tokens, self.score, configs, summed=self.summed, width=self.width,
            num_warps=warps(self.width),
        )  # fmt: skip
        counts = self.budgets.clamp(max=stop).expand(streams, configs)
        return mask(self.tokens, counts, self.streams.layout.length)
