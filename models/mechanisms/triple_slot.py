"""The triple-latent model of slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.mechanism import mechanism
from models.sequence.mechanism import SequenceMechanism
from models.sequence.triple_config import Slots, TripleConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class TripleSlotConfig(TripleConfig):
    """Triple-latent layers whose products are kept in slots of two factors (arXiv 2606.05175)."""

    name: Literal["triple_slot"] = "triple_slot"
    slots: Slots = 8


@mechanism(TripleSlotConfig)
class TripleSlot(SequenceMechanism[TripleSlotConfig]):
    """A state of S numbers a head, and M slots a head of two such factors each; constant size."""

    @classmethod
    def build(cls, config: TripleSlotConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.triple_models import SlotModel

        return SlotModel(config, lanes, vocabulary, length)
