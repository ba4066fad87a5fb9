"""Options of blocks whose state is of constant size: S4D, Mamba and gated DeltaNet, as models share them."""

from __future__ import annotations

from pydantic import Field, model_validator

from models.sequence.config import Heads, SequenceConfig, StateSize


class S4DBlockConfig(SequenceConfig):
    """Options of every model of S4D blocks."""

    state: int = Field(64, ge=2, le=4096, multiple_of=2, description="state size N of a channel, in real numbers")


class MambaBlockConfig(SequenceConfig):
    """Options of every model of Mamba-2 blocks."""

    heads: Heads = 4
    state: StateSize = 64
    expand: int = Field(2, ge=1, le=16, description="channels are this many times the width")

    @model_validator(mode="after")
    def _divides(self) -> MambaBlockConfig:
        if self.expand * self.width % self.heads:
            raise ValueError(
                f"`expand` times `width`, {self.expand * self.width}, is no multiple of `heads` {self.heads}"
            )
        return self


class GatedDeltaBlockConfig(SequenceConfig):
    """Options of every model of gated DeltaNet blocks."""

    heads: Heads = 4
    state: StateSize = 16
    expand: int = Field(
        2, ge=1, le=16, description="values are this many times as wide as keys, whose width is `state`"
    )
