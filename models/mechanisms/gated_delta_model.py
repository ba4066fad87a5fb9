"""Gated DeltaNet as a sequence model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from models.mechanism import mechanism
from models.sequence.config import Heads, SequenceConfig, StateSize
from models.sequence.mechanism import SequenceMechanism

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class GatedDeltaModelConfig(SequenceConfig):
    """Blocks of a gated delta rule with short convolutions and a gated output (Gated DeltaNet, arXiv 2412.06464).

    Embeddings, positions among them, feed-forward part and optimiser are those of the Transformer, so that models
    differ in how they mix tokens alone.
    """

    name: Literal["gated_delta_model"] = "gated_delta_model"
    heads: Heads = 4
    state: StateSize = 16
    expand: int = Field(
        2, ge=1, le=16, description="values are this many times as wide as keys, whose width is `state`"
    )


@mechanism(GatedDeltaModelConfig)
class GatedDeltaModel(SequenceMechanism[GatedDeltaModelConfig]):
    """A key's value is replaced by degrees, and everything fades at a rate that the token decides."""

    @classmethod
    def build(cls, config: GatedDeltaModelConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.gated_delta import GatedDeltaModel as Model

        return Model(config, lanes, vocabulary, length)
