"""The triple-latent family as models: its layers, in hybrids after a local convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.sequence.convolution import LocalConvolution
from models.sequence.model import Block, SequenceModel, State
from models.sequence.triple import Triple, TripleSlot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from models.mechanisms.triple_slot import TripleSlotConfig
    from models.mechanisms.triple_slot_hybrid import TripleSlotHybridConfig
    from models.sequence.lanes import Lanes
    from models.sequence.triple_config import HybridConfig, TripleConfig


class TripleModel(SequenceModel):
    """Triple-latent layers."""

    def make_blocks(self, config: TripleConfig, lanes: Lanes) -> Iterable[Block]:
        return [Triple(config, lanes) for _ in range(config.layers)]


class SlotModel(SequenceModel):
    """Triple-latent layers of slots."""

    def make_blocks(self, config: TripleSlotConfig, lanes: Lanes) -> Iterable[Block]:
        return [TripleSlot(config, lanes) for _ in range(config.layers)]


class Hybrid(SequenceModel):
    """A model that mixes neighbouring tokens before its first block."""

    def __init__(self, config: HybridConfig, lanes: Lanes, vocabulary: int, length: int) -> None:
        super().__init__(config, lanes, vocabulary, length)
        self.convolution = LocalConvolution(lanes, config.width, config.dropout, config.convolution)

    def placed(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.convolution(super().placed(tokens))
        return x

    def start(self) -> State:
        return {**super().start(), "convolution": {}}

    def placed_next(self, tokens: Tensor, state: State) -> Tensor:
        return self.convolution.next(super().placed_next(tokens, state), state["convolution"])


class TripleHybrid(Hybrid):
    """A local convolution and triple-latent layers."""

    def make_blocks(self, config: HybridConfig, lanes: Lanes) -> Iterable[Block]:
        return [Triple(config, lanes) for _ in range(config.layers)]


class SlotHybrid(Hybrid):
    """A local convolution and triple-latent layers of slots."""

    def make_blocks(self, config: TripleSlotHybridConfig, lanes: Lanes) -> Iterable[Block]:
        return [TripleSlot(config, lanes) for _ in range(config.layers)]
