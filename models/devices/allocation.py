"""Allocation by novelty on a device, step by step over tokens: what `models.allocation` does, as masks over tokens."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

import numpy as np

from models.allocation_memory import NoveltyConfig
from models.devices import fused
from models.devices.form import SlotForm
from models.devices.selection import first, lowest
from models.devices.stream_batch import Layout, StreamBatch

if TYPE_CHECKING:
    from torch import Tensor

N = TypeVar("N", bound=NoveltyConfig)


def match(row: Tensor, held: Tensor, tau: Tensor, tie: float) -> tuple[Tensor, Tensor]:
    """Whether a token merges [B, C], and into which slot; the slot is arbitrary where it does not (Eq. 2).

    row [B, C or 1, n]: the token's cosines with tokens before it; held [B, C, n]: those that slots store; tau [C].
    Equal cosines, and all within `tie` of 1, merge into the oldest slot. n is at least 1.
    """
    near_one = 1.0 - tie
    cosines = row.masked_fill(~held, float("-inf"))
    highest = cosines.amax(-1)
    novelty = (1.0 - highest).masked_fill(highest > near_one, 0.0)
    return novelty <= tau, first(cosines >= highest.clamp(max=near_one)[..., None])


class AllocationForm(SlotForm[N]):
    """Opens a slot for a token unlike all stored ones, merges others, and gives up slots as subclasses say.

    A slot's records stand at the place of the token that opened it:
    last   [B, C, L]  token that used it last
    score  [B, C, L]  how much it has been used, as `use` counts it
    """

    admits_newcomer: ClassVar[bool] = True
    """Whether the newcomer may be the one to leave; otherwise room is made before it enters."""

    policy: ClassVar[int | None] = None
    """What leaves, as the Triton kernel names it; None for rules it does not know."""

    keep: Literal["first", "last", "majority"] = "first"

    def slot_cap(self, config: N) -> int | None:
        """Most slots kept after a token; None for no limit."""
        return None

    @property
    def bounded(self) -> bool:
        """Whether slots are ever given up: only then are records kept."""
        return any(self.slot_cap(config) is not None for config in self.configs)

    def numbers(self, layout: Layout) -> int:
        tallies = 2 * layout.classes if self.keep == "majority" else 0
        return super().numbers(layout) + len(self.configs) * layout.length * (8 * self.bounded + tallies)

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        import torch

        super().start(streams, draws)
        self.tau = self.per_config([config.tau for config in self.configs])
        length = streams.layout.length
        caps = [self.slot_cap(config) for config in self.configs]
        limits = [length if cap is None else min(cap, length) for cap in caps]
        self.least_cap = min(limits)
        self.cap = torch.tensor(limits, dtype=torch.int64, device=streams.device)
        self.fused = self.fuse() if self.fusible(max(limits)) else None
        if self.fused is not None:
            return
        if self.bounded:
            self.score = torch.zeros(self.open.shape, dtype=streams.precision.number, device=streams.device)
            self.last = torch.zeros_like(self.score)
        if self.keep != "first":
            self.values = self.values.clone()
        if self.keep == "majority":
            shape = (*self.open.shape, streams.layout.classes)
            self.tally = torch.zeros(shape, dtype=torch.int32, device=streams.device)

    def fusible(self, most: int) -> bool:
        """Whether a Triton kernel can do it, for memories of at most `most` slots."""
        return self.policy is not None and self.keep != "majority" and fused.usable(self.streams, most)

    def fuse(self) -> fused.FusedAllocation:
        """The state of the Triton kernel."""
        import torch

        assert self.policy is not None
        nought = torch.zeros(self.tau.shape, dtype=self.streams.precision.wide, device=self.tau.device)
        caps = fused.Caps(self.cap.int(), nought, nought, nought)
        return fused.FusedAllocation(
            self.streams, self.tau, self.fades(), caps, self.policy, self.bounded, self.keep == "last"
        )

    def fades(self) -> Tensor:
        """Logarithm of the factor on usage at each token [C]."""
        import torch

        return torch.zeros_like(self.tau)

    def write(self, start: int, stop: int) -> None:
        import torch

        if self.fused is not None:
            self.note(self.fused.write(start, stop))
            self.open = self.fused.open()
            if self.keep != "first":
                self.values = self.fused.learned()
            return
        self.in_use = torch.empty((*self.shape, stop - start), dtype=torch.int64, device=self.open.device)
        self.now = self.counts()
        rows = self.streams.rows(start, stop)
        for t in range(start, stop):
            merged, slot = self.match(rows[:, None, t - start, :t], t)
            self.open[..., t] = ~merged & (self.cap > 0)
            self.now += self.open[..., t]
            used = slot.where(merged, t)[..., None]
            if self.bounded:
                self.use(t, used, merged[..., None])
            self.learn(t, used)
            self.evict(t, merged)
            self.in_use[..., t - start] = self.now
        self.note(self.in_use)

    def match(self, row: Tensor, t: int) -> tuple[Tensor, Tensor]:
        """Whether token `t`, with cosines `row` [B, 1, t], merges [B, C], and into which slot."""
        import torch

        if t == 0:
            nothing = torch.zeros_like(self.used)
            return nothing.bool(), nothing
        return match(row, self.open[..., :t], self.tau, self.streams.precision.tie)

    def use(self, t: int, used: Tensor, merged: Tensor) -> None:
        """Note that token `t` used the slots `used` [B, C, 1]: by merging, or by opening one with a use of 1."""
        import torch

        score = self.raised(self.score.gather(2, used), t - self.last.gather(2, used))
        self.score.scatter_(2, used, torch.where(merged, score, self.fresh()))
        self.last.scatter_(2, used, torch.full_like(score, t))

    def raised(self, score: Tensor, age: Tensor) -> Tensor:
        """A score [B, C, 1] after a use `age` tokens after the last."""
        return score + 1.0

    def fresh(self) -> Tensor:
        """The score of a slot that has been used once."""
        import torch

        return torch.ones((), dtype=self.score.dtype, device=self.score.device)

    def learn(self, t: int, used: Tensor) -> None:
        """Let the slots `used` [B, C, 1] see the value of token `t`."""
        import torch

        if self.keep == "first":
            return
        value = self.streams.values[:, None, t, None].expand_as(used)
        if self.keep == "majority":
            cell = used * self.tally.shape[-1]
            tally = self.tally.flatten(2)
            tally.scatter_add_(2, cell + value, torch.ones_like(value, dtype=tally.dtype))
            held = self.values.gather(2, used)
            wins = tally.gather(2, cell + value) > tally.gather(2, cell + held)
            value = torch.where(wins, value, held)
        self.values.scatter_(2, used, value)

    def evict(self, t: int, merged: Tensor) -> None:
        """Give up a slot where there are more than `cap`."""
        seen = t + 1 if self.admits_newcomer else t
        if t < self.least_cap or seen == 0:
            return
        self.close(self.victim(t, self.open[..., :seen]), self.now > self.cap)

    @abstractmethod
    def victim(self, t: int, held: Tensor) -> Tensor:
        """Which of the `held` [B, C, n] slots is worth least at token `t`: [B, C]; n where none is held."""

    def close(self, slot: Tensor, where: Tensor) -> None:
        """Give up slots [B, C] where so told [B, C]."""
        place = slot.clamp(max=self.open.shape[-1] - 1)[..., None]
        gone = where[..., None] & self.open.gather(2, place)
        self.open.scatter_(2, place, self.open.gather(2, place) & ~gone)
        self.now -= gone.squeeze(-1).long()


class LeastUsedForm(AllocationForm[N]):
    """Usage decays at each token; the newcomer, with a usage of 1, competes; ties to the oldest slot.

    A score is the logarithm of the usage at its last use, so that neither long streams nor fast decay cost digits.
    """

    policy: ClassVar[int | None] = fused.LEAST_USED

    @abstractmethod
    def log_decay(self, config: N) -> float:
        """Logarithm of the factor on usage counters at each token."""

    def fades(self) -> Tensor:
        return self.per_config([self.log_decay(config) for config in self.configs])

    def start(self, streams: StreamBatch, draws: Sequence[np.random.Generator]) -> None:
        super().start(streams, draws)
        self.fading = self.fades()[:, None]

    def raised(self, score: Tensor, age: Tensor) -> Tensor:
        return (score + age * self.fading).exp().log1p()

    def fresh(self) -> Tensor:
        return super().fresh() * 0.0

    def victim(self, t: int, held: Tensor) -> Tensor:
        n = held.shape[-1]
        usage = self.score[..., :n] + (t - self.last[..., :n]) * self.fading
        return lowest(usage, held, tie=0.0)
