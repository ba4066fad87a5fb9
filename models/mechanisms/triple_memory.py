"""The triple-latent model with an explicit associative memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from models.mechanism import mechanism
from models.sequence.config import StateSize
from models.sequence.mechanism import SequenceMechanism
from models.sequence.memory_gates_config import MemoryGatesConfig
from models.sequence.triple_config import HybridConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class TripleMemoryConfig(MemoryGatesConfig, HybridConfig):
    """A triple-hybrid that also looks up what followed tokens like the present one (arXiv 2606.05175).

    The defaults are the paper's gated hybrid. Each of its other models is one setting of the same options.
    """

    name: Literal["triple_memory"] = "triple_memory"
    state: StateSize = 8
    query: Literal["parallel", "serial", "previous"] = Field(
        "previous",
        description="what a token looks up; parallel: the layer's normalised input; serial: the residual stream after "
        "the triple-latent read; previous: the embedding of the token before it",
    )
    memory_layers: Literal["all", "last"] = Field(
        "last",
        description="layers that read the memory; with `last` the others hold parameters for it that nothing uses, as "
        "in the released code, whose published counts include them",
    )
    fusion: Literal["sum", "concat", "logits"] = Field(
        "logits",
        description="where a read goes; sum: into the residual stream; concat: with the triple-latent read through one "
        "projection; logits: past all layers, normalised, to the logits",
    )
    top_k: int = Field(8, ge=1, le=65536, description="entries that a read keeps, those most like the query")
    memory_width: int = Field(64, ge=1, le=8192, description="numbers d_a in a key and in a query")

    def doubts(self, length: int, tested: int) -> Iterator[str]:
        yield from super().doubts(length, tested)
        if self.top_k > length:
            yield f"`top_k` {self.top_k:,}: sequences of {length:,} ids have fewer entries, and all are read"


@mechanism(TripleMemoryConfig)
class TripleMemory(SequenceMechanism[TripleMemoryConfig]):
    """As `triple_hybrid`, beside a memory of all pairs of neighbouring tokens, which grows with the sequence."""

    @classmethod
    def build(cls, config: TripleMemoryConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.memory import MemoryModel

        return MemoryModel(config, lanes, vocabulary, length)
