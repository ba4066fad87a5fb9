"""Five models of one width, trained end to end, that differ in what they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from models.config import MOST
from models.gates_losses import novelty, rule_decisions
from models.layers import dense, linear, zeros
from models.mechanism import mechanism
from models.networks.network import Network, one_hot, recall_loss
from models.networks.plain import plain_attention, plain_last_state, plain_novelty, plain_rule
from models.networks.scan import attend, last_state
from models.stream import Floats, Ints, Stream
from models.token_memory import largest
from models.trained import Parameters
from models.training import MOST_STEPS, Draws, Examples, Tensors, TrainingConfig

if TYPE_CHECKING:
    from torch import Tensor

GATES = ("saliency_gate", "novelty_gate")


class EndToEndConfig(TrainingConfig):
    """Five models trained end to end: state space, attention, and three caches (arXiv 2607.09889, §3.1.6, Table 5)."""

    name: Literal["end_to_end"] = "end_to_end"
    memory: Literal["ssm", "attention", "dp_rule", "saliency_gate", "novelty_gate"] = Field(
        "dp_rule",
        description="what is kept: the state alone; all tokens; those the rule opens a slot for; or the `budget` of "
        "largest gate, by a perceptron on the token's embedding or by the two-parameter gate on its novelty",
    )
    width: int = Field(128, ge=1, le=4096, description="width of embeddings, projections and state")
    tau: float = Field(0.4, ge=-2.0, le=3.0, description="novelty threshold of the rule, Eq. 2, on keys as they come")
    budget: int = Field(128, ge=1, le=MOST, description="tokens kept by a gate")
    penalty: float = Field(1.0, ge=0.0, description="weight of the gates' budget penalty (sum of g / budget - 1)²")
    slope: float = Field(10.0, description="a of the novelty gate at the start of training, per unit of novelty")
    steps: int = Field(200, ge=0, le=MOST_STEPS, description="steps of gradient descent")
    learning_rate: float = Field(0.003, gt=0.0, le=10.0, description="Adam's rate at the first step")
    streams: int = Field(2, ge=1, le=4096, description="streams read at each step, new ones every time")


@mechanism(EndToEndConfig)
class EndToEnd(Network[EndToEndConfig]):
    """x = E_k key + E_v value; h = a h + √(1 - a²) x; scores = W (h + E_k q [+ attention of q over what is kept]) + b.

    Novelty is that of keys as they come. With keys of width 512 and 32 classes the parameters number 73,888 (ssm),
    123,424 (attention, dp_rule), 140,065 (saliency_gate) and 123,426 (novelty_gate), as published. Gates mask softly in
    training, log g added to the logits of attention, and keep their top M at the end of a phase.
    """

    @classmethod
    def start_parameters(cls, config: EndToEndConfig, rng: np.random.Generator, stream: Stream) -> Parameters:
        """Embeddings with entries of about 1 for keys of length 1; time constants log-uniform from 1 to 1,000 tokens.

        Queries are first projected as keys are: from projections of their own they learn the same, in more steps.
        """
        width, classes = config.width, stream.classes
        parameters = {
            "embed_key": np.float32(stream.dim**0.5) * dense(rng, stream.dim, width),
            "embed_value": np.float32(classes**0.5) * dense(rng, classes, width),
            "log_rate": rng.uniform(np.log(1e-3), 0.0, width).astype(np.float32),
            "readout": dense(rng, width, classes),
            "bias": zeros(classes),
        }
        if config.memory != "ssm":
            for name in ("key", "value"):
                parameters |= {name: dense(rng, width, width), f"{name}_bias": zeros(width)}
            parameters |= {"query": parameters["key"].copy(), "query_bias": zeros(width)}
        if config.memory == "saliency_gate":
            parameters |= {"gate_hidden": dense(rng, width, width), "gate_hidden_bias": zeros(width)}
            parameters |= {"gate": dense(rng, width, 1), "gate_bias": zeros(1)}
        if config.memory == "novelty_gate":
            parameters |= {"gate_a": np.full(1, config.slope, np.float32), "gate_b": rng.random(1, dtype=np.float32)}
        return parameters

    @classmethod
    def remember(cls, config: EndToEndConfig, parameters: Tensors, keys: Tensor, values: Tensor) -> Tensors:
        x = linear(keys, parameters["embed_key"]) + linear(values, parameters["embed_value"])
        log_factor = -parameters["log_rate"].exp()
        gain = (-(2.0 * log_factor).expm1()).sqrt()[:, None, None]
        memory = {"state": last_state(log_factor, gain * x)}
        if config.memory != "ssm":
            memory |= {name + "s": linear(x, parameters[name], parameters[f"{name}_bias"]) for name in ("key", "value")}
        if config.memory == "dp_rule":
            memory["log_mask"] = rule_decisions(keys, config.tau).log()
        if config.memory in GATES:
            memory["logits"] = cls.gate_logits(config, parameters, keys, x)
        return memory

    @classmethod
    def gate_logits(cls, config: EndToEndConfig, parameters: Tensors, keys: Tensor, x: Tensor) -> Tensor:
        """Logits [S, B, L] of the gates of tokens with `keys` and embeddings `x`."""
        if config.memory == "novelty_gate":
            return parameters["gate_a"][..., None] * (novelty(keys) - parameters["gate_b"][..., None])
        hidden = linear(x, parameters["gate_hidden"], parameters["gate_hidden_bias"]).relu()
        return linear(hidden, parameters["gate"], parameters["gate_bias"])[..., 0]

    @classmethod
    def recall(cls, config: EndToEndConfig, parameters: Tensors, memory: Tensors, queries: Tensor) -> Tensor:
        asked = linear(queries, parameters["embed_key"])
        y = asked + memory["state"][:, :, None]
        if config.memory != "ssm":
            projected = linear(asked, parameters["query"], parameters["query_bias"])
            y = y + attend(projected, memory["keys"], memory["values"], memory.get("log_mask"))
        return linear(y, parameters["readout"], parameters["bias"])

    @classmethod
    def loss(cls, config: EndToEndConfig, parameters: Tensors, examples: Examples, draws: Draws) -> Tensors:
        import torch

        memory = cls.remember(config, parameters, examples.keys, one_hot(examples))
        if config.memory not in GATES:
            return recall_loss(cls.recall(config, parameters, memory, examples.queries), examples)
        logits = memory.pop("logits")
        memory["log_mask"] = torch.nn.functional.logsigmoid(logits)
        penalty = (logits.sigmoid().sum(2) / config.budget - 1.0).square().mean(1)
        recalled = recall_loss(cls.recall(config, parameters, memory, examples.queries), examples)
        task = recalled["loss"]
        return {**recalled, "loss": task + config.penalty * penalty, "task": task, "penalty": penalty}

    # --- reading ---

    def remember_for_good(self, keys: Tensor, values: Tensor) -> Tensors:
        """Tokens that are not kept are dropped."""
        memory = self.remember(self.config, self.tensors, keys, values)
        if self.config.memory == "dp_rule":
            self.opened: Ints = np.isfinite(memory.pop("log_mask")[0, 0].cpu().numpy()).astype(np.int64)
            kept = np.flatnonzero(self.opened)
        elif self.config.memory in GATES:
            logits = memory.pop("logits")[0, 0].cpu().numpy().astype(np.float64)
            kept = largest(logits - logits.min(), self.config.budget)
        else:
            return memory
        return memory | {name: memory[name][:, :, kept] for name in ("keys", "values")}

    def slotted(self) -> Sequence[str]:
        return ("state",) if self.config.memory == "ssm" else ("keys", "values")

    def slots(self) -> int:
        return self.config.width if self.config.memory == "ssm" else self.memory["keys"].shape[2]

    def slots_over_time(self) -> Ints:
        """A gate chooses among all tokens at the end of the phase, and holds them until then."""
        if self.config.memory == "ssm":
            return np.full(self.length, self.config.width)
        if self.config.memory == "dp_rule":
            return np.cumsum(self.opened)
        return np.arange(1, self.length + 1)

    @classmethod
    def plain_scores(
        cls, config: EndToEndConfig, parameters: dict[str, Floats], keys: Floats, values: Floats, queries: Floats
    ) -> Floats:
        p = parameters
        x = keys @ p["embed_key"] + values @ p["embed_value"]
        log_factor = -np.exp(p["log_rate"])
        state = plain_last_state(log_factor, np.sqrt(1.0 - np.exp(2.0 * log_factor)) * x)
        kept = cls.plain_kept(config, p, keys, x)
        scores = []
        for query in queries:
            y = query @ p["embed_key"] + state
            if config.memory != "ssm":
                asked = query @ p["embed_key"] @ p["query"] + p["query_bias"]
                y = y + plain_attention(
                    asked, x[kept] @ p["key"] + p["key_bias"], x[kept] @ p["value"] + p["value_bias"]
                )
            scores.append(y @ p["readout"] + p["bias"])
        return np.stack(scores)

    @classmethod
    def plain_kept(cls, config: EndToEndConfig, p: dict[str, Floats], keys: Floats, x: Floats) -> list[int]:
        """Tokens that are kept."""
        if config.memory == "dp_rule":
            return plain_rule(keys, config.tau)
        if config.memory == "novelty_gate":
            gates = [float(p["gate_a"][0] * (nov - p["gate_b"][0])) for nov in plain_novelty(keys)]
        elif config.memory == "saliency_gate":
            hidden = np.maximum(x @ p["gate_hidden"] + p["gate_hidden_bias"], 0.0)
            gates = (hidden @ p["gate"] + p["gate_bias"])[:, 0].tolist()
        else:
            return list(range(len(keys)))
        return sorted(sorted(range(len(keys)), key=lambda t: -gates[t])[: config.budget])
