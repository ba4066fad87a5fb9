"""The sliding window on a device."""

from __future__ import annotations

from models.devices.form import device_form
from models.devices.token_memory import OnlineForm
from models.mechanisms.recency import RecencyConfig


@device_form(RecencyConfig)
class RecencyForm(OnlineForm[RecencyConfig]):
    """The newest tokens."""

    def update(self, start: int, stop: int) -> None:
        for c, config in enumerate(self.configs):
            self.open[:, c, :stop] = False
            self.open[:, c, max(0, stop - config.budget) : stop] = True
