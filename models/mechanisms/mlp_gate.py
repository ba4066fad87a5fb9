"""The over-parameterised gate: a perceptron that learns from the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.gates import MaskConfig, task_loss
from models.gates_perceptron import PerceptronConfig, PerceptronGate
from models.mechanism import mechanism
from models.training import Draws, Examples, Tensors

if TYPE_CHECKING:
    from torch import Tensor


class MLPGateConfig(PerceptronConfig, MaskConfig):
    """Perceptron gate that learns from the task; of keys alone, a saliency per token (arXiv 2607.09889, §3.1.4)."""

    name: Literal["mlp_gate"] = "mlp_gate"


@mechanism(MLPGateConfig)
class MLPGate(PerceptronGate[MLPGateConfig]):
    """Copies of a key have equal saliency, so without noise whole items are kept: recall 1/r + (1 - 1/r) / classes."""

    @classmethod
    def loss(cls, config: MLPGateConfig, examples: Examples, logits: Tensor, draws: Draws) -> Tensors:
        return task_loss(config, examples, logits, draws)
