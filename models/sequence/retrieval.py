"""Backbones whose last block stands beside a memory of what followed which token."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from torch import zeros_like
from torch.nn.functional import pad

from models.sequence.attention import Transformer
from models.sequence.gated_delta import GatedDeltaModel
from models.sequence.layers import LayerNorm
from models.sequence.mamba import MambaModel
from models.sequence.memory import Text
from models.sequence.model import Block, SequenceModel, State, taken
from models.sequence.pointer_slots import Recall
from models.sequence.s4d import S4DModel
from models.sequence.slot_memory import PointerMemory, memory_of
from models.sequence.triple_models import TripleHybrid

if TYPE_CHECKING:
    from torch import Tensor

    from models.sequence.lanes import Lanes
    from models.sequence.retrieval_config import RetrievalConfig


class Retrieval(SequenceModel):
    """A backbone and one memory, read beside its last block; with `append` the gated hybrid of arXiv 2606.05175.

    What is read goes into the residual stream before the block's feed-forward part, or past it to the logits, as
    E (LN(h) + LN'(m)). Of width d and with keys of width a the memory adds to the backbone's parameters 2 d a for keys
    and queries (shared: d a, bare: none) and d² for values (`pointer`: none of these), d + 1 for the read gate, 2 d + 1
    for the write gate, 2 d where it is read to the logits, 2 for the gate of `learned`, and d + 1 for pointer logits.
    """

    def __init__(self, config: RetrievalConfig, lanes: Lanes, vocabulary: int, length: int) -> None:
        super().__init__(config, lanes, vocabulary, length)
        self.query = config.query
        self.memory = memory_of(config, lanes)
        self.read_norm = LayerNorm(lanes, config.width) if config.fusion == "logits" else None

    def forward(self, ids: Tensor, at: Tensor | None = None) -> Tensor:
        text = Text(ids, self.tokens.weight, self.tokens(ids))
        *blocks, last = self.layers()
        x = self.placed(text.embedded)
        for block in blocks:
            x = block(x)
        u = last.norm(x)
        y = taken(x, at) + last.drop(last.mix(u, at))
        before = pad(text.embedded[:, :, :-1], (0, 0, 1, 0))
        basis = taken({"previous": before, "current": text.embedded, "parallel": u}[self.query], at)
        return self.concluded(y, taken(u, at), self.memory(basis, text, at))

    def layers(self) -> list[Block]:
        """The blocks, first to last."""
        return cast("list[Block]", list(self.blocks))

    def concluded(self, y: Tensor, u: Tensor, found: Tensor | Recall) -> Tensor:
        """Logits [..., V] from the residual stream `y` [..., d] in the last block, whose input was `u`, and a read."""
        read = found.value if isinstance(found, Recall) else found
        last = self.layers()[-1]
        if self.read_norm is None:
            h = self.norm(last.fed(y + last.drop(read)))
        else:
            h = self.norm(last.fed(y)) + self.read_norm(read)
        logits = self.tokens.logits(h)
        if isinstance(self.memory, PointerMemory) and isinstance(found, Recall):
            return self.memory.slots.pointed(logits, u, found)
        return logits

    def start(self) -> State:
        return {**super().start(), "memory": {}}

    def next(self, ids: Tensor, state: State) -> Tensor:
        embedded, own = self.tokens(ids), state["memory"]
        *blocks, last = self.layers()
        *states, last_state = state["blocks"]
        x = self.placed_next(embedded, state)
        for block, block_state in zip(blocks, states, strict=True):
            x = block.next(x, block_state)
        u = last.norm(x)
        y = x + last.mix_next(u, last_state)
        before = own.get("embedded", zeros_like(embedded))
        basis = {"previous": before, "current": embedded, "parallel": u}[self.query]
        state["read"] += 1
        if isinstance(self.memory, PointerMemory):
            return self.concluded(y, u, self.memory.next(ids, basis, embedded, own))
        return self.concluded(y, u, self.memory.next(basis, embedded, own))


class TripleRetrieval(Retrieval, TripleHybrid):
    """A local convolution and triple-latent layers, and the memory."""


class TransformerRetrieval(Retrieval, Transformer):
    """Blocks of attention, within a window if there is one, and the memory."""


class S4DRetrieval(Retrieval, S4DModel):
    """Blocks of diagonal state spaces, and the memory."""


class MambaRetrieval(Retrieval, MambaModel):
    """Blocks of selective state spaces, and the memory."""


class GatedDeltaRetrieval(Retrieval, GatedDeltaModel):
    """Blocks of a gated delta rule, and the memory."""
