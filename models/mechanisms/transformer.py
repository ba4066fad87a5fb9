"""The Transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from models.mechanism import mechanism
from models.sequence.config import Heads, SequenceConfig
from models.sequence.mechanism import SequenceMechanism

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class TransformerConfig(SequenceConfig):
    """Transformer of pre-norm blocks with learned positions (arXiv 1706.03762; the baseline of arXiv 2606.05175)."""

    name: Literal["transformer"] = "transformer"
    heads: Heads = 4
    attention_dropout: float = Field(
        0.1, ge=0.0, lt=1.0, description="share of attention weights that training drops; 0 lets attention be fused"
    )
    feed_forward: Literal["gelu", "swiglu", "swiglu_matched"] = Field(
        "gelu",
        description="gelu: the published baseline; swiglu: hidden 4d, the later default of its code; "
        "swiglu_matched: hidden 8d/3, as many parameters as gelu",
    )

    @model_validator(mode="after")
    def _divides(self) -> TransformerConfig:
        if self.width % self.heads:
            raise ValueError(f"`width` {self.width} is no multiple of `heads` {self.heads}")
        return self


@mechanism(TransformerConfig)
class Transformer(SequenceMechanism[TransformerConfig]):
    """Every token attends to all tokens up to itself: a memory that grows with the sequence."""

    @classmethod
    def build(cls, config: TransformerConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.attention import Transformer as Model

        return Model(config, lanes, vocabulary, length)
