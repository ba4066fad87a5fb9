"""Options that models of the triple-latent family share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from models.sequence.config import Heads, SequenceConfig, StateSize

TAPS = 5
"""Tokens that one output of the local convolution is made of."""

Slots = Annotated[int, Field(ge=1, le=1024, description="slots M of a head")]


class TripleConfig(SequenceConfig):
    """Options of every model of the family: heads, and the size of their states."""

    heads: Heads = 4
    state: StateSize = 16


class HybridConfig(TripleConfig):
    """Options of models that mix neighbouring tokens before their first layer."""

    convolution: Literal["causal", "two_sided"] = Field(
        "causal",
        description="what each token is mixed with before the first layer; causal: the four tokens before it; "
        "two_sided: two before and two after it, as published: outputs then depend on later tokens",
    )

    @property
    def leaks_future(self) -> bool:
        return self.convolution == "two_sided"
