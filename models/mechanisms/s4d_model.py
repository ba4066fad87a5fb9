"""S4D as a sequence model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.mechanism import mechanism
from models.sequence.mechanism import SequenceMechanism
from models.sequence.state_space_config import S4DBlockConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class S4DModelConfig(S4DBlockConfig):
    """Blocks of diagonal state spaces, one a channel, S4D-Lin with zero-order hold (arXiv 2206.11893).

    Embeddings, positions among them, feed-forward part and optimiser are those of the Transformer, so that models
    differ in how they mix tokens alone: one rate and one decay of weights for all parameters, poles and steps included.
    """

    name: Literal["s4d_model"] = "s4d_model"


@mechanism(S4DModelConfig)
class S4DModel(SequenceMechanism[S4DModelConfig]):
    """Every channel keeps damped oscillations of what it has read: a convolution, the same for every token."""

    @classmethod
    def build(cls, config: S4DModelConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.s4d import S4DModel as Model

        return Model(config, lanes, vocabulary, length)
