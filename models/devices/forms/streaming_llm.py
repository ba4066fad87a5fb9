"""Attention sinks on a device."""

from __future__ import annotations

from models.devices.form import device_form
from models.devices.token_memory import OnlineForm
from models.mechanisms.streaming_llm import StreamingLLMConfig


@device_form(StreamingLLMConfig)
class StreamingLLMForm(OnlineForm[StreamingLLMConfig]):
    """The first tokens and the newest ones."""

    def update(self, start: int, stop: int) -> None:
        for c, config in enumerate(self.configs):
            kept = min(stop, config.budget)
            sinks = min(kept, config.kept_sinks)
            self.open[:, c, :stop] = False
            self.open[:, c, :sinks] = True
            self.open[:, c, stop - (kept - sinks) : stop] = True
