"""The published triple-latent models (arXiv 2606.05175, released code), as what to say under `mechanisms:` for each."""

from __future__ import annotations

from typing import Any

from models.mechanism import MECHANISMS
from models.sequence.config import SequenceConfig
from models.sequence.lanes import Lanes
from models.sequence.model import SequenceModel

_UNGATED: dict[str, Any] = {"name": "triple_memory", "top_k": 4, "read_gate": False}
_PARALLEL: dict[str, Any] = {**_UNGATED, "query": "parallel"}
_WRITE: dict[str, Any] = {"name": "triple_memory", "write_gate": True}

PRESETS: dict[str, dict[str, Any]] = {
    "latent": {"name": "triple_latent"},
    "slot": {"name": "triple_slot"},
    "hybrid": {"name": "triple_hybrid"},
    "slot-hybrid": {"name": "triple_slot_hybrid"},
    "assoc-sum": {**_PARALLEL, "memory_layers": "all", "fusion": "sum"},
    "assoc-concat": {**_PARALLEL, "memory_layers": "all", "fusion": "concat"},
    "assoc-logits": {**_PARALLEL, "memory_layers": "all"},
    "assoc-serial-sum": {**_UNGATED, "query": "serial", "memory_layers": "all", "fusion": "sum"},
    "assoc-last-sum": {**_PARALLEL, "fusion": "sum"},
    "assoc-last-logits": _PARALLEL,
    "assoc-prev-sum": {**_UNGATED, "memory_layers": "all", "fusion": "sum"},
    "assoc-prev-logits": {**_UNGATED, "memory_layers": "all"},
    "assoc-gated-last-logits": {"name": "triple_memory"},
    "assoc-writegated-last-logits": _WRITE,
    "assoc-writegated-last-sum": {**_WRITE, "fusion": "sum"},
    "assoc-writegated-all-logits": {**_WRITE, "memory_layers": "all"},
}

BACKBONES = {
    "triple_retrieval": {"name": "triple_hybrid", "state": 8},
    "transformer_retrieval": {"name": "transformer", "window": 32},
    "s4d_retrieval": {"name": "s4d_model"},
    "mamba_retrieval": {"name": "mamba_model"},
    "gated_delta_retrieval": {"name": "gated_delta_model"},
}
"""What models with a retrieval memory are without it."""


def config(name: str, **fields: Any) -> SequenceConfig:
    made = MECHANISMS.config_class(name)(name=name, **fields)
    assert isinstance(made, SequenceConfig)
    return made


def build(described: SequenceConfig, vocabulary: int, length: int, seeds: tuple[int, ...] = (1,)) -> SequenceModel:
    """A model with a lane for each of `seeds`."""
    lanes = Lanes([(seed, seed + 1000) for seed in seeds])
    model: SequenceModel = MECHANISMS.implementation(described.name).build(described, lanes, vocabulary, length)
    return model


def enliven(model: SequenceModel, scale: float = 10.0) -> SequenceModel:
    """`model` with matrices as large as training makes them, so that every part of it shows in its outputs."""
    for name, parameter in model.named_parameters():
        if name.endswith("weight") and parameter.dim() == 3:
            parameter.data.mul_(scale)
    return model
