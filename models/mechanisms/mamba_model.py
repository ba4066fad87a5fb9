"""Mamba-2 as a sequence model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from models.mechanism import mechanism
from models.sequence.config import Heads, SequenceConfig, StateSize
from models.sequence.mechanism import SequenceMechanism

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class MambaModelConfig(SequenceConfig):
    """Blocks of a selective state space in the form of Mamba-2 (arXiv 2405.21060): one scalar decay a head and token.

    Mamba's own decays (arXiv 2312.00752) differ by channel and state, which no matrix product evaluates; Mamba-2's are
    linear attention with a decay, exact and fast in chunks, and recall at least as well. Embeddings, positions among
    them, feed-forward part and optimiser are those of the Transformer, so that models differ in how they mix tokens.
    """

    name: Literal["mamba_model"] = "mamba_model"
    heads: Heads = 4
    state: StateSize = 64
    expand: int = Field(2, ge=1, le=16, description="channels are this many times the width")

    @model_validator(mode="after")
    def _divides(self) -> MambaModelConfig:
        if self.expand * self.width % self.heads:
            raise ValueError(
                f"`expand` times `width`, {self.expand * self.width}, is no multiple of `heads` {self.heads}"
            )
        return self


@mechanism(MambaModelConfig)
class MambaModel(SequenceMechanism[MambaModelConfig]):
    """The token decides what a state takes in, keeps and gives back."""

    @classmethod
    def build(cls, config: MambaModelConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.mamba import MambaModel as Model

        return Model(config, lanes, vocabulary, length)
