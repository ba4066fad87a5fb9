"""Full attention on a device."""

from __future__ import annotations

from models.devices.form import device_form
from models.devices.token_memory import TokenForm
from models.mechanisms.full_attention import FullAttentionConfig


@device_form(FullAttentionConfig)
class FullAttentionForm(TokenForm[FullAttentionConfig]):
    """Every token is a slot."""
