"""The Transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.mechanism import mechanism
from models.sequence.attention_config import AttentionConfig
from models.sequence.mechanism import SequenceMechanism

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class TransformerConfig(AttentionConfig):
    """Transformer of pre-norm blocks with learned positions (arXiv 1706.03762; the baseline of arXiv 2606.05175)."""

    name: Literal["transformer"] = "transformer"


@mechanism(TransformerConfig)
class Transformer(SequenceMechanism[TransformerConfig]):
    """Every token attends to all tokens up to itself: a memory that grows with the sequence."""

    @classmethod
    def build(cls, config: TransformerConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.attention import Transformer as Model

        return Model(config, lanes, vocabulary, length)
