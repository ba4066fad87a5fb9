"""Memories of raw tokens on a device: what policies that keep some tokens as they arrived have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, TypeVar

from models.config import SlotConfig
from models.devices import fused
from models.devices.form import SlotForm
from models.token_memory import BudgetConfig

if TYPE_CHECKING:
    from torch import Tensor

S = TypeVar("S", bound=SlotConfig)
B = TypeVar("B", bound=BudgetConfig)


class TokenForm(SlotForm[S]):
    """Takes in every token; subclasses may drop some at a phase end."""

    def write(self, start: int, stop: int) -> None:
        self.append(start, stop)


class OnlineForm(SlotForm[B]):
    """Evicts at each token that exceeds the budget, so that after t tokens it holds min(t, budget)."""

    def budgets(self) -> Tensor:
        """Budgets [C]."""
        import torch

        length = self.streams.layout.length
        budgets = [min(config.budget, length) for config in self.configs]
        return torch.tensor(budgets, dtype=torch.int64, device=self.open.device)

    def fuse(self, protected: Tensor, temperature: float, tie: float, *, summed: bool) -> fused.FusedEviction | None:
        """The state of the Triton kernel that evicts by attention; None where it cannot be used."""
        budgets = self.budgets()
        if not fused.usable(self.streams, int(budgets.max())):
            return None
        return fused.FusedEviction(self.streams, budgets, protected, temperature, tie, summed)

    @abstractmethod
    def update(self, start: int, stop: int) -> None:
        """Bring `open`, which is right up to token `start`, up to token `stop`."""

    def write(self, start: int, stop: int) -> None:
        import torch

        self.update(start, stop)
        arrived = torch.arange(start + 1, stop + 1, device=self.open.device)
        self.note(torch.minimum(arrived, self.budgets()[:, None]).expand(*self.shape, -1))


def attention_received(rows: Tensor, first: int, held: Tensor, temperature: float) -> Tensor:
    """Softmax attention that tokens pay to each slot, summed over the tokens [B, n].

    rows [B, b, n]: cosines of b tokens, the first of which is token `first`, with all tokens before the last of them;
    held [B, n]: tokens that slots store. A token sees itself and those before it.
    """
    import torch

    tokens = torch.arange(rows.shape[2], device=rows.device)
    seen = held[:, None] & (tokens <= tokens[first : first + rows.shape[1], None])
    scores = (rows / temperature).masked_fill(~seen, float("-inf"))
    return scores.softmax(-1).sum(1)
