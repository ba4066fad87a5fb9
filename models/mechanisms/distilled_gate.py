"""A perceptron gate distilled to the decisions of the rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from models.gates_losses import rule_decisions
from models.gates_perceptron import Inputs, PerceptronConfig, PerceptronGate
from models.layers import per_seed
from models.mechanism import mechanism
from models.training import Draws, Examples, Tensors

if TYPE_CHECKING:
    from torch import Tensor


class DistilledGateConfig(PerceptronConfig):
    """The perceptron gate, taught which tokens the rule opens a slot for, and no task (arXiv 2607.09889, §3.1.4)."""

    name: Literal["distilled_gate"] = "distilled_gate"
    inputs: Inputs = Field(
        "embedding_and_novelty", description="what the gate sees of a token: its key alone, or novelty as well"
    )
    tau: float = Field(0.4, ge=-2.0, le=3.0, description="novelty threshold of the rule, Eq. 2")


@mechanism(DistilledGateConfig)
class DistilledGate(PerceptronGate[DistilledGateConfig]):
    """Trained by binary cross-entropy with the rule's decisions."""

    @classmethod
    def loss(cls, config: DistilledGateConfig, examples: Examples, logits: Tensor, draws: Draws) -> Tensors:
        import torch

        taught = rule_decisions(examples.keys, config.tau)
        losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, taught, reduction="none")
        return {"loss": per_seed(losses)}
