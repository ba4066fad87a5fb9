"""The triple-latent model with an explicit associative memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from models.mechanism import mechanism
from models.sequence.config import StateSize
from models.sequence.mechanism import SequenceMechanism
from models.sequence.triple_config import HybridConfig

if TYPE_CHECKING:
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel


class TripleMemoryConfig(HybridConfig):
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
    read_gate: bool = Field(True, description="scale what is read by a sigmoid of what was looked up")
    read_gate_bias: float = Field(0.0, ge=-100.0, le=100.0, description="bias that the read gate starts from")
    write_gate: bool = Field(
        False, description="weigh entries by a sigmoid of the two tokens they are made of, in scores and in values"
    )
    top_k: int = Field(8, ge=1, le=65536, description="entries that a read keeps, those most like the query")
    memory_width: int = Field(64, ge=1, le=8192, description="numbers d_a in a key and in a query")

    @model_validator(mode="after")
    def _gates_what_it_biases(self) -> TripleMemoryConfig:
        if self.read_gate_bias and not self.read_gate:
            raise ValueError("`read_gate_bias` needs `read_gate: true`")
        return self


@mechanism(TripleMemoryConfig)
class TripleMemory(SequenceMechanism[TripleMemoryConfig]):
    """As `triple_hybrid`, beside a memory of all pairs of neighbouring tokens, which grows with the sequence."""

    @classmethod
    def build(cls, config: TripleMemoryConfig, lanes: Lanes, vocabulary: int, length: int) -> SequenceModel:
        from models.sequence.memory import MemoryModel

        return MemoryModel(config, lanes, vocabulary, length)
