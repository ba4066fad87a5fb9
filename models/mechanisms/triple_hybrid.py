"""The triple-latent model after a local convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.mechanism import mechanism
from models.sequence.mechanism import SequenceMechanism
from models.sequence.triple_config import HybridConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class TripleHybridConfig(HybridConfig):
    """A local convolution, then triple-latent layers (arXiv 2606.05175)."""

    name: Literal["triple_hybrid"] = "triple_hybrid"


@mechanism(TripleHybridConfig)
class TripleHybrid(SequenceMechanism[TripleHybridConfig]):
    """As `triple_latent`, and the last four tokens of a convolution; constant size."""

    @classmethod
    def build(cls, config: TripleHybridConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.triple_models import TripleHybrid as Model

        return Model(config, lanes, vocabulary, length)
