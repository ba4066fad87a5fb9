"""The nearest-neighbour memory on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.devices.form import Questions, device_form, scored
from models.devices.token_memory import TokenForm
from models.mechanisms.knn import KNNConfig

if TYPE_CHECKING:
    from torch import Tensor


@device_form(KNNConfig)
class KNNForm(TokenForm[KNNConfig]):
    """Ties at the k-th place: the lowest slots are read."""

    def answer(self, questions: Questions) -> Tensor:
        import torch

        if self.config.reading == "argmax":
            return super().answer(questions)
        cosines, tie = questions.cosines, self.streams.precision.tie
        n = cosines.shape[2]
        ranked = cosines.sort(-1, descending=True).values
        read = []
        for c, config in enumerate(self.configs):
            k = min(config.k, n)
            border = ranked[..., k - 1, None]
            clear = cosines > border + tie
            tied = ~clear & (cosines >= border - tie)
            room = k - clear.sum(-1, keepdim=True)
            read.append(self.read(cosines, clear | (tied & (tied.cumsum(-1) <= room)), self.values[:, c, :n]))
        return scored(torch.stack(read, dim=1), questions.answers)
