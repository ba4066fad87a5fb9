"""The gated delta rule on a device."""

from __future__ import annotations

from models.devices.fixed_state import DeltaForm
from models.devices.form import device_form
from models.mechanisms.gated_delta_rule import GatedDeltaRuleConfig


@device_form(GatedDeltaRuleConfig)
class GatedDeltaRuleForm(DeltaForm[GatedDeltaRuleConfig]):
    """S = alpha (I - beta k k') S + beta k v."""

    def rates(self, config: GatedDeltaRuleConfig) -> tuple[float, float]:
        return config.alpha, config.beta
