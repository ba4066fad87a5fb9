"""Options of the gates of a memory of what followed which token."""

from __future__ import annotations

from pydantic import Field, model_validator

from models.sequence.config import SequenceConfig


class MemoryGatesConfig(SequenceConfig):
    """Options of every model that reads such a memory."""

    read_gate: bool = Field(True, description="scale what is read by a sigmoid of what was looked up")
    read_gate_bias: float = Field(0.0, ge=-100.0, le=100.0, description="bias that the read gate starts from")
    write_gate: bool = Field(
        False, description="weigh entries by a sigmoid of the two tokens they are made of, in scores and in values"
    )

    @model_validator(mode="after")
    def _gates_what_it_biases(self) -> MemoryGatesConfig:
        if self.read_gate_bias and not self.read_gate:
            raise ValueError("`read_gate_bias` needs `read_gate: true`")
        return self
