"""Gated DeltaNet with a retrieval memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.mechanism import mechanism
from models.sequence.mechanism import SequenceMechanism
from models.sequence.retrieval_config import RetrievalConfig
from models.sequence.state_space_config import GatedDeltaBlockConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class GatedDeltaRetrievalConfig(RetrievalConfig, GatedDeltaBlockConfig):
    """The blocks of `gated_delta_model` (arXiv 2412.06464) with a retrieval memory."""

    name: Literal["gated_delta_retrieval"] = "gated_delta_retrieval"


@mechanism(GatedDeltaRetrievalConfig)
class GatedDeltaRetrieval(SequenceMechanism[GatedDeltaRetrievalConfig]):
    """As its backbone, beside slots of what followed which token: as many as are novel, or all."""

    @classmethod
    def build(cls, config: GatedDeltaRetrievalConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.retrieval import GatedDeltaRetrieval as Model

        return Model(config, lanes, vocabulary, length)
