"""The nearest-neighbour memory on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.devices.form import Questions, SlotForm, device_form, scored
from models.mechanisms.knn import KNNConfig, room

if TYPE_CHECKING:
    from torch import Tensor


@device_form(KNNConfig)
class KNNForm(SlotForm[KNNConfig]):
    """The newest tokens, within a budget. Ties at the k-th place: the oldest slots are read."""

    def write(self, start: int, stop: int) -> None:
        import torch

        budgets = [room(config, self.streams.layout.length) for config in self.configs]
        for c, budget in enumerate(budgets):
            self.open[:, c, :stop] = False
            self.open[:, c, max(0, stop - budget) : stop] = True
        arrived = torch.arange(start + 1, stop + 1, device=self.open.device)
        held = torch.minimum(arrived, torch.tensor(budgets, device=self.open.device)[:, None])
        self.note(held.expand(*self.shape, -1))

    def answer(self, questions: Questions) -> Tensor:
        import torch

        if self.config.reading == "argmax":
            return super().answer(questions)
        n, tie = questions.cosines.shape[2], self.streams.precision.tie
        read = []
        for c, config in enumerate(self.configs):
            cosines = questions.cosines.masked_fill(~self.open[:, c, None, :n], float("-inf"))
            k = min(config.k, room(config, n))
            border = cosines.sort(-1, descending=True).values[..., max(k - 1, 0), None]
            clear = cosines > border + tie
            tied = ~clear & (cosines >= border - tie)
            place = k - clear.sum(-1, keepdim=True)
            read.append(self.read(cosines, clear | (tied & (tied.cumsum(-1) <= place)), self.values[:, c, :n]))
        return scored(torch.stack(read, dim=1), questions.answers)
