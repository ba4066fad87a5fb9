"""Options that models with a retrieval memory share, whatever their backbone and their memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from models.sequence.memory_gates_config import MemoryGatesConfig

Keys = Literal["projected", "shared", "bare"]
Keep = Literal["last", "first", "mean"]

OWN: dict[str, tuple[str, ...]] = {
    "append": ("memory_width", "keys"),
    "novelty": ("memory_width", "keys", "tau", "slots", "keep", "decay"),
    "learned": ("memory_width", "keys", "tau", "slots", "keep", "decay", "gate_slope"),
    "surprise": ("memory_width", "keys", "tau", "slots", "keep", "decay", "eta", "beta", "m0"),
    "pointer": ("tau", "slots", "empty_below", "pointer_logits"),
}
"""The options that each memory has beside those of all."""


class RetrievalConfig(MemoryGatesConfig):
    """Options of a memory of what followed which token, read beside the backbone's last block.

    append     every token has an entry, top-k of them are read (arXiv 2606.05175, its gated hybrid)
    novelty    an entry opens a slot if 1 - max cos with all slots is above tau; else the nearest slot takes it
               (arXiv 2607.09889, Eq. 2)
    learned    the same, with a gate sigmoid(slope (novelty - tau)) that opens a slot above 1/2, both numbers learned
               from the task
    surprise   novelty, and at most m0 + beta T slots, T a running share of novel entries (arXiv 2607.09889, Sec. 3.2)
    pointer    the slots of SparsePointer: what is alike moves together, values are bare embeddings, and what is read
               points at token ids; as published with tau 0.15, slots 32, top_k 4, write_gate true
    """

    memory: Literal["append", "novelty", "learned", "surprise", "pointer"] = Field(
        "novelty",
        description="what is kept of the tokens; append: all; novelty: a slot for what is unlike all slots; learned: "
        "novelty with a learned threshold; surprise: novelty with an adaptive cap; pointer: the slots of SparsePointer",
    )
    query: Literal["previous", "current", "parallel"] = Field(
        "previous",
        description="what a token looks up; previous, current: the embedding of the token before it, or its own; "
        "parallel: the normalised input of the last block",
    )
    fusion: Literal["logits", "sum"] = Field(
        "logits",
        description="where a read goes; logits: past the last block, normalised, to the logits; sum: into the residual "
        "stream before the last feed-forward part",
    )
    top_k: int = Field(8, ge=1, le=65536, description="entries or slots that a read keeps, those most like the query")
    temperature: float = Field(
        1.0, ge=0.005, le=100.0, description="softmax temperature of the read, in units of cosine; 1 is the published"
    )
    keys: Keys = Field(
        "projected",
        description="keys and queries are embeddings through two learned matrices (projected, the published), through "
        "one for both (shared), or as they are (bare); with the latter two a token is like itself from the start",
    )
    memory_width: int = Field(64, ge=1, le=8192, description="numbers d_a in a key and in a query, unless bare")
    tau: float = Field(
        0.01,
        ge=0.0,
        le=2.0,
        description="novelty threshold: a slot opens when 1 - max cos is above it; where `learned` starts from. Low, "
        "so that slots take copies alone: training moves keys that differ near each other",
    )
    slots: int = Field(64, ge=1, le=65536, description="most slots of a sequence; beyond, the least used leaves")
    keep: Keep = Field(
        "last",
        description="what a slot has of the values of its entries; the last, the first, or the mean of all: which is "
        "right depends on whether what follows a token changes, comes once by chance, or varies",
    )
    decay: float = Field(
        0.95,
        gt=0.0,
        le=1.0,
        description="factor on every slot's usage counter at each entry; near 0 the slot longest unused leaves",
    )
    gate_slope: float = Field(10.0, gt=0.0, le=1000.0, description="slope that the gate of `learned` starts from")
    eta: float = Field(0.1, ge=0.0, le=1.0, description="rate at which T of `surprise` follows the entries")
    beta: float = Field(40.0, ge=0.0, le=65536.0, description="slots that `surprise` may have more, all being novel")
    m0: float = Field(8.0, ge=0.0, le=65536.0, description="slots that `surprise` may have, none being novel")
    empty_below: float = Field(0.05, ge=0.0, lt=1.0, description="strength up to which `pointer` takes slots for empty")
    pointer_logits: bool = Field(True, description="`pointer` also adds to the logits of the tokens that it stores")

    of_one_memory: ClassVar[frozenset[str]] = frozenset().union(*OWN.values())

    def doubts(self, length: int, tested: int) -> Iterator[str]:
        yield from super().doubts(length, tested)
        most, what = (length, "entries") if self.memory == "append" else (self.slots, "slots")
        if self.top_k > most:
            yield f"`top_k` {self.top_k:,} of {most:,} {what}: all are read"

    @model_validator(mode="after")
    def _has_what_it_is_told_of(self) -> RetrievalConfig:
        if self.memory == "pointer" and self.query == "parallel":
            raise ValueError("`memory: pointer` looks embeddings up: `query` must be previous or current")
        if self.keys != "projected" and self.query == "parallel":
            raise ValueError(f"`keys: {self.keys}` are compared with embeddings: `query` must be previous or current")
        if self.keys == "bare" and self.memory_width != type(self).model_fields["memory_width"].default:
            raise ValueError("`keys: bare` are as wide as embeddings: leave `memory_width` out")
        for field in sorted(self.of_one_memory - set(OWN[self.memory])):
            default: Any = type(self).model_fields[field].default
            if getattr(self, field) != default:
                having = [name for name, fields in OWN.items() if field in fields]
                raise ValueError(f"`{field}` is of `memory: {' or '.join(having)}`; {self.memory} has no such option")
        return self
