"""S4D with a retrieval memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.mechanism import mechanism
from models.sequence.mechanism import SequenceMechanism
from models.sequence.retrieval_config import RetrievalConfig
from models.sequence.state_space_config import S4DBlockConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class S4DRetrievalConfig(RetrievalConfig, S4DBlockConfig):
    """The blocks of `s4d_model` (arXiv 2206.11893) with a retrieval memory."""

    name: Literal["s4d_retrieval"] = "s4d_retrieval"


@mechanism(S4DRetrievalConfig)
class S4DRetrieval(SequenceMechanism[S4DRetrievalConfig]):
    """As its backbone, beside slots of what followed which token: as many as are novel, or all."""

    @classmethod
    def build(cls, config: S4DRetrievalConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.retrieval import S4DRetrieval as Model

        return Model(config, lanes, vocabulary, length)
