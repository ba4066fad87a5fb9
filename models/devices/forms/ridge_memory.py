"""The ridge memory on a device."""

from __future__ import annotations

from models.devices.fixed_state import RidgeForm
from models.devices.form import device_form
from models.mechanisms.ridge_memory import RidgeMemoryConfig


@device_form(RidgeMemoryConfig)
class RidgeMemoryForm(RidgeForm[RidgeMemoryConfig]):
    """The best state that a linear read of the keys can have."""

    @classmethod
    def penalty(cls, config: RidgeMemoryConfig) -> float | None:
        return config.ridge
