"""The seam of device forms: what a mechanism is on a device, and how memories of slots are read there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from models.config import MechanismConfig, SlotConfig
from models.devices.device import DeviceClass
from models.devices.selection import first
from models.devices.stream_batch import Layout, StreamBatch
from models.mechanism import ABSTAINED, MECHANISMS
from models.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

C = TypeVar("C", bound=MechanismConfig)
S = TypeVar("S", bound=SlotConfig)


@dataclass(frozen=True)
class Questions:
    """Some queries of a phase of B streams.

    queries  [B, Q, d]  unit query keys
    cosines  [B, Q, n]  of the queries with the n tokens read so far
    answers  [B, Q]     right classes
    """

    queries: Tensor
    cosines: Tensor
    answers: Tensor


class DeviceForm(ABC, Generic[C]):
    """Several configs of one mechanism, of one group as its `group_key` says, reading B streams at once.

    It follows the same rule as the mechanism's `write`, `settle` and `answer`, in torch. Every stream and config is by
    itself: none sees another.
    """

    def __init__(self, configs: Sequence[C]) -> None:
        self.configs = tuple(configs)
        self.config = self.configs[0]

    @classmethod
    def objection(cls, config: C, device: DeviceClass) -> str | None:
        """Why `config` has no form on `device`; None where it has one."""
        return None

    @abstractmethod
    def numbers(self, layout: Layout) -> int:
        """Numbers of state that all configs together keep for one stream, for packing batches into memory."""

    @abstractmethod
    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        """Forget everything and prepare for `streams`; `draws` has one generator a stream."""

    @abstractmethod
    def write(self, start: int, stop: int) -> None:
        """Read tokens start..stop-1."""

    def settle(self, stop: int) -> None:
        """Called after the last token of a phase, before its queries."""

    @property
    def reads_cosines(self) -> bool:
        """Whether `answer` looks at the cosines of queries with tokens: computing them is then a part of reading."""
        return False

    @abstractmethod
    def counts(self) -> Tensor:
        """Slots in use [B, C], now."""

    @abstractmethod
    def usage(self) -> tuple[Tensor, Tensor]:
        """Slots in use: their sum over tokens, after each write, and their peak, each [B, C]."""

    @abstractmethod
    def answer(self, questions: Questions) -> Tensor:
        """Probability [B, C, Q] that each query is answered right; NaN where a memory abstains."""


DEVICE_FORMS: Registry[DeviceForm[Any]] = Registry("device form", "models.devices.forms", "slotsweep.device_forms")
device_form = DEVICE_FORMS.register


def objection(config: MechanismConfig, device: DeviceClass) -> str | None:
    """Why trials of `config` cannot run on `device`; None where they can. A planner asks; torch is not imported.

    Mechanisms that learn train and read on whatever torch's default device is, so they need no form.
    """
    if device == "cpu" or MECHANISMS.implementation(config.name).trained:
        return None
    if config.name not in DEVICE_FORMS:
        return f"`{config.name}` runs on cpu only: it has no form for devices"
    form: type[DeviceForm[Any]] = DEVICE_FORMS.implementation(config.name)
    return form.objection(config, device)


def supports(config: MechanismConfig, device: DeviceClass) -> bool:
    """Whether trials of `config` can run on `device`."""
    return objection(config, device) is None


class SlotForm(DeviceForm[S]):
    """A memory of slots that store tokens' keys: a mask over the tokens read so far.

    Slots stand in order of their tokens, which is the order in which they were opened. Subclasses keep `open` [B, C, L]
    up to date in `write` and `settle`, `used` and `peak` [B, C] with `note`, and `values` if they change a slot's.
    """

    def numbers(self, layout: Layout) -> int:
        """Mask, one record a slot, and what choosing among slots takes."""
        return 6 * len(self.configs) * layout.length

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        import torch

        self.streams = streams
        self.shape = (len(streams), len(self.configs))
        length = streams.layout.length
        self.open = torch.zeros((*self.shape, length), dtype=torch.bool, device=streams.device)
        self.used = torch.zeros(self.shape, dtype=torch.int64, device=streams.device)
        self.peak = torch.zeros_like(self.used)
        self.values = streams.values[:, None].expand(*self.shape, length)

    def per_config(self, values: Sequence[float]) -> Tensor:
        """One number a config [C], as scores are held."""
        import torch

        return torch.tensor(list(values), dtype=self.streams.precision.number, device=self.streams.device)

    def append(self, start: int, stop: int) -> None:
        """Take in tokens start..stop-1 without dropping any."""
        import torch

        arrived = torch.arange(1, stop - start + 1, device=self.open.device)
        self.note(self.counts()[..., None] + arrived)
        self.open[..., start:stop] = True

    def note(self, counts: Tensor) -> None:
        """Take in the slots in use [B, C, n] after each of n tokens."""
        import torch

        self.used += counts.sum(-1)
        self.peak = torch.maximum(self.peak, counts.int().amax(-1).long())

    @property
    def reads_cosines(self) -> bool:
        return True

    def counts(self) -> Tensor:
        return self.open.sum(-1)

    def usage(self) -> tuple[Tensor, Tensor]:
        return self.used, self.peak

    def answer(self, questions: Questions) -> Tensor:
        """1 where the class read for a query is right, 0 where it is wrong, NaN where the memory is empty."""
        import torch

        n = questions.cosines.shape[2]
        read = [
            self.read(self.query_cosines(questions, c), self.open[:, c, None, :n], self.values[:, c, :n])
            for c in range(len(self.configs))
        ]
        return scored(torch.stack(read, dim=1), questions.answers)

    def query_cosines(self, questions: Questions, c: int) -> Tensor:
        """Cosines [B, Q, n] of queries with the slots of config `c`, each at the place of its token."""
        return questions.cosines

    def read(self, cosines: Tensor, visible: Tensor, values: Tensor) -> Tensor:
        """Class [B, Q] read by queries of one config; ABSTAINED where no slot is visible.

        cosines [B, Q, n], visible: a mask that broadcasts to them, values [B, n]
        """
        import torch

        precision, reading = self.streams.precision, self.config.reading
        cosines = cosines.masked_fill(~visible, float("-inf"))
        highest = cosines.amax(-1, keepdim=True)
        empty = (highest == float("-inf")).squeeze(-1)
        if reading == "argmax":
            nearest = first(cosines >= highest - precision.tie)
            predicted = values.gather(1, nearest)
        else:
            weights = torch.exp((cosines - highest) / reading)
            kinds = values[..., None] == torch.arange(self.streams.layout.classes, device=values.device)
            votes = torch.bmm(weights, kinds.to(weights.dtype))
            border = votes.amax(-1, keepdim=True) * (1.0 - precision.tie_of_shares(reading))
            predicted = first(votes >= border)
        return predicted.masked_fill(empty, ABSTAINED)


def scored(predicted: Tensor, answers: Tensor) -> Tensor:
    """Predicted classes [B, C, Q] against `answers` [B, Q]: 1 right, 0 wrong, NaN abstained."""
    import torch

    right = (predicted == answers[:, None]).to(torch.float32)
    return right.masked_fill(predicted == ABSTAINED, float("nan"))
