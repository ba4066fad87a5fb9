"""The triple-hybrid with a retrieval memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.mechanism import mechanism
from models.sequence.config import StateSize
from models.sequence.mechanism import SequenceMechanism
from models.sequence.retrieval_config import RetrievalConfig
from models.sequence.triple_config import HybridConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class TripleRetrievalConfig(RetrievalConfig, HybridConfig):
    """A triple-hybrid (arXiv 2606.05175) with a retrieval memory; `memory: append` is the paper's gated hybrid.

    Without the parameters that `triple_memory` holds in layers that read no memory, as the released code does.
    """

    name: Literal["triple_retrieval"] = "triple_retrieval"
    state: StateSize = 8


@mechanism(TripleRetrievalConfig)
class TripleRetrieval(SequenceMechanism[TripleRetrievalConfig]):
    """As its backbone, beside slots of what followed which token: as many as are novel, or all."""

    @classmethod
    def build(cls, config: TripleRetrievalConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.retrieval import TripleRetrieval as Model

        return Model(config, lanes, vocabulary, length)
