"""The triple-latent model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.mechanism import mechanism
from models.sequence.mechanism import SequenceMechanism
from models.sequence.triple_config import TripleConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class TripleLatentConfig(TripleConfig):
    """Triple-latent layers: a gated state, and a gated memory of its products with tokens (arXiv 2606.05175)."""

    name: Literal["triple_latent"] = "triple_latent"


@mechanism(TripleLatentConfig)
class TripleLatent(SequenceMechanism[TripleLatentConfig]):
    """A state of S numbers a head, and a matrix S x S a head of what came after what; constant size."""

    @classmethod
    def build(cls, config: TripleLatentConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.triple_models import TripleModel

        return TripleModel(config, lanes, vocabulary, length)
