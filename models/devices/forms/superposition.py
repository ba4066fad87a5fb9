"""Superposition on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.devices.fixed_state import StateForm
from models.devices.form import device_form
from models.mechanisms.superposition import SuperpositionConfig

if TYPE_CHECKING:
    from torch import Tensor


@device_form(SuperpositionConfig)
class SuperpositionForm(StateForm[SuperpositionConfig]):
    """S = decay S + k v, a block of tokens at a time."""

    def update(self, features: Tensor, targets: Tensor) -> None:
        import torch

        count = features.shape[1]
        ages = torch.arange(count - 1, -1, -1, dtype=features.dtype, device=features.device)[:, None]
        for c, config in enumerate(self.configs):
            fresh = features.transpose(1, 2) @ (config.decay**ages * targets)
            self.states[:, c] = config.decay**count * self.states[:, c] + fresh
