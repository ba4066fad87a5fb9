"""Options that models with attention share."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from models.sequence.config import Heads, SequenceConfig


class AttentionConfig(SequenceConfig):
    """Options of every model of Transformer blocks."""

    heads: Heads = 4
    attention_dropout: float = Field(
        0.1,
        ge=0.0,
        lt=1.0,
        description="share of attention weights that training drops; by default as `dropout`; 0 lets attention be "
        "fused",
    )
    window: int | None = Field(
        None, ge=1, le=65536, description="tokens that each attends to, itself and those before it; None: all"
    )
    feed_forward: Literal["gelu", "swiglu", "swiglu_matched"] = Field(
        "gelu",
        description="gelu: the published baseline; swiglu: hidden 4d, the later default of its code; "
        "swiglu_matched: hidden 8d/3, as many parameters as gelu",
    )

    @model_validator(mode="before")
    @classmethod
    def _follows(cls, given: Any) -> Any:
        share = given.get("dropout") if isinstance(given, dict) and "attention_dropout" not in given else None
        said = isinstance(share, int | float) and 0.0 <= share < 1.0  # of others `dropout` itself complains
        return {**given, "attention_dropout": share} if said else given

    @model_validator(mode="after")
    def _divides(self) -> AttentionConfig:
        if self.width % self.heads:
            raise ValueError(f"`width` {self.width} is no multiple of `heads` {self.heads}")
        return self
