"""The quadratic memory on a device."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from models.devices.fixed_state import RidgeForm
from models.devices.form import device_form
from models.mechanisms.quadratic_memory import QuadraticMemoryConfig

if TYPE_CHECKING:
    from torch import Tensor


@device_form(QuadraticMemoryConfig)
class QuadraticMemoryForm(RidgeForm[QuadraticMemoryConfig]):
    """Features are all products of two key entries, those of different entries times sqrt(2)."""

    def rows(self, dim: int) -> int:
        return dim * (dim + 1) // 2

    def features(self, keys: Tensor) -> Tensor:
        import torch

        left, right = torch.triu_indices(keys.shape[-1], keys.shape[-1], device=keys.device)
        scale = torch.ones(len(left), dtype=keys.dtype, device=keys.device).masked_fill(left != right, math.sqrt(2.0))
        return keys[..., left] * keys[..., right] * scale

    @classmethod
    def penalty(cls, config: QuadraticMemoryConfig) -> float | None:
        return config.ridge
