"""The UniMatrix family."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from models.mechanism import mechanism
from models.sequence.config import Heads, SequenceConfig, StateSize
from models.sequence.mechanism import SequenceMechanism

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class MatrixConfig(SequenceConfig):
    """Options of models that apply one shared block, around a matrix state, `layers` times."""

    heads: Heads = 4
    state: StateSize = 16
    depth_state: Literal["reset", "carried"] = Field(
        "reset",
        description="matrix a pass over the tokens starts from. reset: none; carried, as released: the last of the "
        "pass before, by which every output depends on all tokens: LEAKS FUTURE, for reproductions alone",
    )

    @property
    def leaks_future(self) -> bool:
        return self.depth_state == "carried" and self.layers > 1


class UniMatrixConfig(MatrixConfig):
    """UniMatrix (the code of arXiv 2606.05175 has it as `associative_state_universal_transformers`).

    Where its description is silent: the token before the first counts as nothing; what was carried is the matrix alone,
    the memory of `assoc` starts empty at every pass and its keys and values are made of what the pass's norm gives.
    """

    name: Literal["unimatrix"] = "unimatrix"
    variant: Literal["core", "rosa", "discovery", "assoc"] = Field(
        "core",
        description="core: a decayed sum of k v^T; rosa: and a table looked up by the token before; discovery: rosa "
        "with three kinds of writes into a bounded matrix; assoc: core and an append-only memory read by cosine",
    )
    top_k: int = Field(8, ge=1, description="entries of the memory that are read (assoc)")
    memory_width: int = Field(64, ge=1, le=8192, description="width of the memory's keys (assoc)")

    def doubts(self, length: int, tested: int) -> Iterator[str]:
        yield from super().doubts(length, tested)
        if self.variant == "assoc" and self.top_k > length:
            yield f"`top_k` {self.top_k:,}: sequences of {length:,} ids have fewer entries, and all are read"

    @model_validator(mode="after")
    def _has_a_memory(self) -> UniMatrixConfig:
        for field in ("top_k", "memory_width"):
            if self.variant != "assoc" and getattr(self, field) != UniMatrixConfig.model_fields[field].default:
                raise ValueError(f"`{field}` is of `variant: assoc`; {self.variant} has no such memory")
        return self


@mechanism(UniMatrixConfig)
class UniMatrix(SequenceMechanism[UniMatrixConfig]):
    """Several passes of one block over matrices of constant size; the memory of `assoc` grows with the sequence."""

    @classmethod
    def build(cls, config: UniMatrixConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence import unimatrix

        model = {"rosa": unimatrix.UniMatrixRosa, "discovery": unimatrix.UniMatrixDiscovery}.get(config.variant)
        return (model or unimatrix.UniMatrix)(config, lanes, vocabulary, length)
