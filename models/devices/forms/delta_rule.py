"""The delta rule on a device."""

from __future__ import annotations

from models.devices.fixed_state import DeltaForm
from models.devices.form import device_form
from models.mechanisms.delta_rule import DeltaRuleConfig


@device_form(DeltaRuleConfig)
class DeltaRuleForm(DeltaForm[DeltaRuleConfig]):
    """S += beta k (v - k S)."""

    def rates(self, config: DeltaRuleConfig) -> tuple[float, float]:
        return 1.0, config.beta
