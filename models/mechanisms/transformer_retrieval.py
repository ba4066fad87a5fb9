"""The Transformer with a window and a retrieval memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from models.mechanism import mechanism
from models.sequence.attention_config import AttentionConfig
from models.sequence.mechanism import SequenceMechanism
from models.sequence.retrieval_config import RetrievalConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class TransformerRetrievalConfig(RetrievalConfig, AttentionConfig):
    """Transformer whose tokens attend within a window, with a retrieval memory for what lies before it."""

    name: Literal["transformer_retrieval"] = "transformer_retrieval"
    window: int | None = Field(
        32, ge=1, le=65536, description="tokens that each attends to, itself and those before it; null: all"
    )


@mechanism(TransformerRetrievalConfig)
class TransformerRetrieval(SequenceMechanism[TransformerRetrievalConfig]):
    """As its backbone, beside slots of what followed which token: as many as are novel, or all."""

    @classmethod
    def build(cls, config: TransformerRetrievalConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.retrieval import TransformerRetrieval as Model

        return Model(config, lanes, vocabulary, length)
