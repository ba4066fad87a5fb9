"""Mamba-2 with a retrieval memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.mechanism import mechanism
from models.sequence.mechanism import SequenceMechanism
from models.sequence.retrieval_config import RetrievalConfig
from models.sequence.state_space_config import MambaBlockConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class MambaRetrievalConfig(RetrievalConfig, MambaBlockConfig):
    """The blocks of `mamba_model` (arXiv 2405.21060) with a retrieval memory."""

    name: Literal["mamba_retrieval"] = "mamba_retrieval"


@mechanism(MambaRetrievalConfig)
class MambaRetrieval(SequenceMechanism[MambaRetrievalConfig]):
    """As its backbone, beside slots of what followed which token: as many as are novel, or all."""

    @classmethod
    def build(cls, config: MambaRetrievalConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.retrieval import MambaRetrieval as Model

        return Model(config, lanes, vocabulary, length)
