"""Gated DeltaNet as a sequence model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.mechanism import mechanism
from models.sequence.mechanism import SequenceMechanism
from models.sequence.state_space_config import GatedDeltaBlockConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class GatedDeltaModelConfig(GatedDeltaBlockConfig):
    """Blocks of a gated delta rule with short convolutions and a gated output (Gated DeltaNet, arXiv 2412.06464).

    Embeddings, positions among them, feed-forward part and optimiser are those of the Transformer, so that models
    differ in how they mix tokens alone.
    """

    name: Literal["gated_delta_model"] = "gated_delta_model"


@mechanism(GatedDeltaModelConfig)
class GatedDeltaModel(SequenceMechanism[GatedDeltaModelConfig]):
    """A key's value is replaced by degrees, and everything fades at a rate that the token decides."""

    @classmethod
    def build(cls, config: GatedDeltaModelConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.gated_delta import GatedDeltaModel as Model

        return Model(config, lanes, vocabulary, length)
