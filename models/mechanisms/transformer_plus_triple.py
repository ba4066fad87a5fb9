"""The Transformer with a triple-latent layer beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.mechanism import mechanism
from models.sequence.attention_config import AttentionConfig
from models.sequence.mechanism import SequenceMechanism
from models.sequence.triple_config import TripleConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class TransformerPlusTripleConfig(AttentionConfig, TripleConfig):
    """A Transformer, and one triple-latent layer of the embedded tokens, that add up to logits (arXiv 2606.05175, 3.3).

    The paper gives logits E h + E LN(c), and says that the layer's left keys come from tokens. It has no code, and
    leaves open what else the layer reads. Here it reads what the first attention layer reads, tokens with positions;
    its factor a, which enters the state, is made of the bare token embeddings; c is its whole output, residual stream
    and feed-forward part included; h has passed the Transformer's last normalisation, as in every other model.
    """

    name: Literal["transformer_plus_triple"] = "transformer_plus_triple"


@mechanism(TransformerPlusTripleConfig)
class TransformerPlusTriple(SequenceMechanism[TransformerPlusTripleConfig]):
    """A memory that grows with the sequence, and beside it one of constant size."""

    @classmethod
    def build(cls, config: TransformerPlusTripleConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.transformer_plus_triple import TransformerPlusTriple as Model

        return Model(config, lanes, vocabulary, length)
