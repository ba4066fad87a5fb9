"""Mamba-2 as a sequence model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.mechanism import mechanism
from models.sequence.mechanism import SequenceMechanism
from models.sequence.state_space_config import MambaBlockConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class MambaModelConfig(MambaBlockConfig):
    """Blocks of a selective state space in the form of Mamba-2 (arXiv 2405.21060): one scalar decay a head and token.

    Mamba's own decays (arXiv 2312.00752) differ by channel and state, which no matrix product evaluates; Mamba-2's are
    linear attention with a decay, exact and fast in chunks, and recall at least as well. Embeddings, positions among
    them, feed-forward part and optimiser are those of the Transformer, so that models differ in how they mix tokens.
    """

    name: Literal["mamba_model"] = "mamba_model"


@mechanism(MambaModelConfig)
class MambaModel(SequenceMechanism[MambaModelConfig]):
    """The token decides what a state takes in, keeps and gives back."""

    @classmethod
    def build(cls, config: MambaModelConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.mamba import MambaModel as Model

        return Model(config, lanes, vocabulary, length)
