"""The triple-latent model of slots after a local convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.mechanism import mechanism
from models.sequence.mechanism import SequenceMechanism
from models.sequence.triple_config import HybridConfig, Slots

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class TripleSlotHybridConfig(HybridConfig):
    """A local convolution, then triple-latent layers of slots (arXiv 2606.05175)."""

    name: Literal["triple_slot_hybrid"] = "triple_slot_hybrid"
    slots: Slots = 8


@mechanism(TripleSlotHybridConfig)
class TripleSlotHybrid(SequenceMechanism[TripleSlotHybridConfig]):
    """As `triple_slot`, and the last four tokens of a convolution; constant size."""

    @classmethod
    def build(cls, config: TripleSlotHybridConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.triple_models import SlotHybrid

        return SlotHybrid(config, lanes, vocabulary, length)
