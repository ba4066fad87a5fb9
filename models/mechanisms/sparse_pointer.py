"""UniMatrix with a memory of slots that point at tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from models.mechanism import mechanism
from models.mechanisms.unimatrix import MatrixConfig
from models.sequence.mechanism import SequenceMechanism

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class SparsePointerConfig(MatrixConfig):
    """UniMatrix-core and a few slots of token pairs, which also point at tokens to answer with (arXiv 2606.05175).

    Where its description is silent: the token before asks and is what is written under, reads come before writes, as
    in `triple_memory`; what depth passes carry is the matrix alone, slots start empty; merging moves a slot by
    g / (s + g), with strengths g of the write and s of the slot, which becomes max(s, g); a merge makes a slot new; and
    a write too weak to count still takes a slot, which counts as empty.
    """

    name: Literal["sparse_pointer"] = "sparse_pointer"
    slots: int = Field(32, ge=1, le=4096, description="slots of a sequence")
    top_k: int = Field(4, ge=1, description="slots that are read, at most")
    write_gate: bool = Field(True, description="writes have a learned strength; false: all have strength 1")
    pointer_logits: bool = Field(True, description="what is read also adds to the logits of the tokens stored")
    merge_above: float = Field(0.85, ge=-1.0, le=1.0, description="cosine with a slot above which a write joins it")
    empty_below: float = Field(0.05, ge=0.0, lt=1.0, description="strength up to which a slot counts as empty")

    def doubts(self, length: int, tested: int) -> Iterator[str]:
        yield from super().doubts(length, tested)
        if self.top_k > self.slots:
            yield f"`top_k` {self.top_k:,} of `slots` {self.slots:,}: all slots are read"


@mechanism(SparsePointerConfig)
class SparsePointer(SequenceMechanism[SparsePointerConfig]):
    """Matrices of constant size, and slots that hold what followed which token."""

    @classmethod
    def build(cls, config: SparsePointerConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.sparse_pointer import SparsePointer as Model

        return Model(config, lanes, vocabulary, length)
