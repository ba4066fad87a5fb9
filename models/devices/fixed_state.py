"""Memories of fixed size on a device: one matrix a stream and config that every token is written into."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from models.config import MechanismConfig
from models.devices.device import DeviceClass
from models.devices.form import DeviceForm, Questions, scored
from models.devices.selection import first
from models.devices.stream_batch import Layout, StreamBatch
from models.mechanism import ABSTAINED

if TYPE_CHECKING:
    from torch import Tensor

C = TypeVar("C", bound=MechanismConfig)


class StateForm(DeviceForm[C]):
    """`states` [B, C, rows, classes], read as y = phi(q) S; the class of largest y, the lowest within a tie."""

    def rows(self, dim: int) -> int:
        """Rows of S for keys of width `dim`."""
        return dim

    def features(self, keys: Tensor) -> Tensor:
        """phi of unit keys [B, n, d]: [B, n, rows]."""
        return keys

    def query_features(self, queries: Tensor) -> Tensor:
        """What S is multiplied with to read unit queries [B, Q, d]: [B, Q, rows]."""
        return self.features(queries)

    @abstractmethod
    def update(self, features: Tensor, targets: Tensor) -> None:
        """Take in tokens with `features` [B, n, rows] and one-hot `targets` [B, n, classes]."""

    def numbers(self, layout: Layout) -> int:
        return 3 * len(self.configs) * self.rows(layout.dim) * layout.classes

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        self.streams = streams
        self.tokens = 0
        shape = (len(streams), len(self.configs), self.rows(streams.layout.dim), streams.layout.classes)
        self.states = streams.keys.new_zeros(shape)

    def write(self, start: int, stop: int) -> None:
        import torch

        targets = torch.nn.functional.one_hot(self.streams.values[:, start:stop], self.streams.layout.classes)
        features = self.features(self.streams.keys[:, start:stop])
        self.update(features, targets.to(features.dtype))
        self.tokens = stop

    def counts(self) -> Tensor:
        """Rows of S, at any time."""
        import torch

        return torch.full(self.states.shape[:2], self.states.shape[2], device=self.states.device)

    def usage(self) -> tuple[Tensor, Tensor]:
        return self.counts() * self.tokens, self.counts()

    def answer(self, questions: Questions) -> Tensor:
        features = self.query_features(questions.queries)[:, None]
        longest = self.states.norm(dim=2).amax(-1)[..., None]
        scores = features @ self.states
        rounding = self.streams.precision.tie * longest * features.norm(dim=-1)
        predicted = first(scores >= (scores.amax(-1) - rounding)[..., None])
        empty = (longest <= self.streams.precision.tie).expand_as(predicted)
        return scored(predicted.masked_fill(empty, ABSTAINED), questions.answers)


class DeltaForm(StateForm[C]):
    """States that follow S = alpha S, then S += beta k (v - k S), token by token."""

    @abstractmethod
    def rates(self, config: C) -> tuple[float, float]:
        """(alpha, beta)."""

    def update(self, features: Tensor, targets: Tensor) -> None:
        rates = self.states.new_tensor([self.rates(config) for config in self.configs])
        alpha, beta = rates[:, 0, None, None], rates[:, 1, None, None]
        for t in range(features.shape[1]):
            key, value = features[:, None, t, None], targets[:, None, t, None]
            self.states *= alpha
            self.states += key.transpose(2, 3) * (beta * (value - key @ self.states))


class RidgeForm(StateForm[C]):
    """The state of least squares, (K'K + ridge I)^-1 K'V, from sums in 64 bits; K'V alone without a ridge."""

    @classmethod
    @abstractmethod
    def penalty(cls, config: C) -> float | None:
        """The ridge; None for S = K'V."""

    @classmethod
    def objection(cls, config: C, device: DeviceClass) -> str | None:
        if device == "mps" and cls.penalty(config) is not None:
            return f"`{config.name}` solves for its state in 64 bits, which mps has not: run it on cpu or cuda"
        return None

    def numbers(self, layout: Layout) -> int:
        return super().numbers(layout) + 2 * (len(self.configs) + 1) * self.rows(layout.dim) ** 2

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        super().start(streams, draws)
        rows, wide = self.rows(streams.layout.dim), streams.precision.wide
        self.sums = streams.keys.new_zeros((len(streams), rows, streams.layout.classes), dtype=wide)
        self.gram = streams.keys.new_zeros((len(streams), rows, rows), dtype=wide)

    def update(self, features: Tensor, targets: Tensor) -> None:
        features = features.to(self.sums.dtype).transpose(1, 2)
        self.sums += features @ targets.to(self.sums.dtype)
        if self.penalty(self.config) is not None:
            self.gram += features @ features.transpose(1, 2)

    def settle(self, stop: int) -> None:
        import torch

        identity = torch.eye(self.gram.shape[1], dtype=self.gram.dtype, device=self.gram.device)
        for c, config in enumerate(self.configs):
            ridge = self.penalty(config)
            solved = self.sums if ridge is None else torch.linalg.solve(self.gram + ridge * identity, self.sums)
            self.states[:, c] = solved.to(self.states.dtype)
