"""SparsePointer: UniMatrix beside a few slots of token pairs, which also point at tokens to answer with."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from models.sequence.model import State, taken
from models.sequence.pointer_slots import PointerSlots, Recall
from models.sequence.slots import Policy
from models.sequence.unimatrix import HintedBlock, MatrixBlock, UniMatrix

if TYPE_CHECKING:
    from torch import Tensor

    from models.mechanisms.sparse_pointer import SparsePointerConfig
    from models.sequence.lanes import Lanes


class SparsePointer(UniMatrix):
    """Passes of a block over the tokens, each of which takes sigmoid(W u + b) of what it reads from the slots.

    Pointer logits are of u in the last pass. Slots depend on embeddings alone: all passes read the same.
    """

    def __init__(self, config: SparsePointerConfig, lanes: Lanes, vocabulary: int, length: int) -> None:
        super().__init__(config, lanes, vocabulary, length)
        policy = Policy(config.slots, config.top_k, config.merge_above, config.empty_below)
        self.slots = PointerSlots(
            lanes, config.width, policy, write_gate=config.write_gate, pointer_logits=config.pointer_logits
        )

    def make_block(self, config: SparsePointerConfig, lanes: Lanes) -> MatrixBlock:
        return HintedBlock(config, lanes)

    def forward(self, ids: Tensor, at: Tensor | None = None) -> Tensor:
        recall = self.slots(ids, self.tokens(ids))
        entering, x = self.passes(ids, at, recall.value)
        here = Recall(*(taken(part, at) for part in recall))
        return self.pointed(self.tokens.logits(self.norm(x)), taken(entering, at), here)

    def start(self) -> State:
        return {**super().start(), "slots": {}}

    def next(self, ids: Tensor, state: State) -> Tensor:
        recall = self.slots.next(ids, self.tokens(ids), state["slots"])
        entering, x = self.passes_next(ids, state, recall.value)
        return self.pointed(self.tokens.logits(self.norm(x)), entering, recall)

    def pointed(self, logits: Tensor, entering: Tensor, recall: Recall) -> Tensor:
        """Logits [S, B, ..., V] with the pointer's, for tokens as they enter the last pass [S, B, ..., d]."""
        return self.slots.pointed(logits, cast("MatrixBlock", self.blocks[-1]).norm(entering), recall)
