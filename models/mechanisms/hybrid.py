"""A state-space backbone with a cache beside it: the state counts, the cache recalls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from models.gates_losses import rule_decisions
from models.layers import dense, linear, per_seed, zeros
from models.mechanism import mechanism
from models.networks.network import Network, one_hot, recall_loss
from models.networks.plain import plain_attention, plain_last_state, plain_rule
from models.networks.scan import attend, last_state, scan
from models.stream import Floats, Ints, Stream
from models.trained import Fitted, Init, Parameters, Streams
from models.training import MOST_STEPS, Draws, Examples, Tensors, TrainingConfig, read_examples

if TYPE_CHECKING:
    from torch import Tensor

COUNTED = 0
"""The class whose tokens are counted."""

HIDDEN = 64
"""Hidden units of the readout that sees state and query side by side."""

HELD_OUT = 64
"""Streams that `count_r2` is measured on, none of them trained on or evaluated."""


class HybridConfig(TrainingConfig):
    """State-space backbone and a cache, trained to recall and to count (arXiv 2607.09889, §3.1.5, Table 4)."""

    name: Literal["hybrid"] = "hybrid"
    memory: Literal["none", "attention", "dp_cache"] = Field(
        "dp_cache", description="what stands beside the state: nothing, all tokens, or those the rule opens a slot for"
    )
    tau: float = Field(0.4, ge=-2.0, le=3.0, description="novelty threshold of the rule, Eq. 2, on keys as they come")
    state: int = Field(48, ge=1, le=4096, description="size N of the state: the slots where there is no cache")
    steps: int = Field(300, ge=0, le=MOST_STEPS, description="steps of gradient descent")
    learning_rate: float = Field(0.02, gt=0.0, le=10.0, description="Adam's rate at the first step")


@mechanism(HybridConfig)
class Hybrid(Network[HybridConfig]):
    """h = a h + √(1 - a²) W [key, value] with a learned; slots are the cache's, or the state's where there is none.

    The aggregate is the running count of tokens of class 0, read from the state after each token. `count_r2` is
    1 - SSE / SST over all tokens of 64 held-out streams, where predicting the mean gives 0. Its squared error, in units
    of the count expected at the end of a stream, is added to the loss of recall.
    """

    own_metrics = (*Network.own_metrics, "count_r2")

    @classmethod
    def start_parameters(cls, config: HybridConfig, rng: np.random.Generator, stream: Stream) -> Parameters:
        """Time constants start log-uniform between 1 and 1,000 tokens; projections give entries of about 1."""
        dim, classes, state = stream.dim, stream.classes, config.state
        parameters = {
            "log_rate": rng.uniform(np.log(1e-3), 0.0, state).astype(np.float32),
            "token": dense(rng, dim + classes, state),
            "count": dense(rng, state, 1),
            "count_bias": zeros(1),
            "hidden": dense(rng, state + dim, HIDDEN),
            "hidden_bias": zeros(HIDDEN),
            "readout": dense(rng, HIDDEN, classes),
            "bias": zeros(classes),
        }
        if config.memory != "none":
            root = np.float32(dim**0.5)
            parameters |= {"query": root * dense(rng, dim, dim), "key": root * dense(rng, dim, dim)}
            parameters["cached"] = dense(rng, classes, classes)
        return parameters

    @classmethod
    def backbone(cls, parameters: Tensors, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithm of a [S, N], and what the state takes in [S, B, L, N]."""
        import torch

        log_factor = -parameters["log_rate"].exp()
        gain = (-(2.0 * log_factor).expm1()).sqrt()
        return log_factor, gain[:, None, None] * linear(torch.cat([keys, values], 3), parameters["token"])

    @classmethod
    def remember(cls, config: HybridConfig, parameters: Tensors, keys: Tensor, values: Tensor) -> Tensors:
        memory = {"state": last_state(*cls.backbone(parameters, keys, values))}
        if config.memory != "none":
            memory |= {"keys": linear(keys, parameters["key"]), "values": values}
        if config.memory == "dp_cache":
            memory["log_mask"] = rule_decisions(keys, config.tau).log()
        return memory

    @classmethod
    def recall(cls, config: HybridConfig, parameters: Tensors, memory: Tensors, queries: Tensor) -> Tensor:
        import torch

        state = memory["state"][:, :, None].expand(-1, -1, queries.shape[2], -1)
        x = linear(torch.cat([state, queries], 3), parameters["hidden"], parameters["hidden_bias"]).relu()
        scores = linear(x, parameters["readout"], parameters["bias"])
        if config.memory == "none":
            return scores
        asked = linear(queries, parameters["query"])
        read = attend(asked, memory["keys"], memory["values"], memory.get("log_mask"))
        return scores + linear(read, parameters["cached"])

    # --- the count ---

    @classmethod
    def counts_read(cls, parameters: Tensors, examples: Examples) -> tuple[Tensor, Tensor]:
        """Running counts [S, B, L] as read from the state, and as they are, in units of the count expected at last."""
        values = one_hot(examples)
        states = scan(*cls.backbone(parameters, examples.keys, values))
        read = linear(states, parameters["count"], parameters["count_bias"])[..., 0]
        return read, values[..., COUNTED].cumsum(2) * (examples.classes / values.shape[2])

    @classmethod
    def loss(cls, config: HybridConfig, parameters: Tensors, examples: Examples, draws: Draws) -> Tensors:
        memory = cls.remember(config, parameters, examples.keys, one_hot(examples))
        recalled = recall_loss(cls.recall(config, parameters, memory, examples.queries), examples)
        read, right = cls.counts_read(parameters, examples)
        error = per_seed((read - right).square())
        return {**recalled, "loss": recalled["loss"] + error, "task": recalled["loss"], "count_error": error}

    @classmethod
    def fit(cls, config: HybridConfig, seeds: Sequence[int], streams: Streams, init: Init) -> list[Fitted]:
        import torch

        learned = super().fit(config, seeds, streams, init)
        for seed, fitted in zip(seeds, learned, strict=True):
            examples = read_examples([seed], streams, config.steps * config.streams, HELD_OUT)
            parameters = {name: torch.tensor(array)[None] for name, array in fitted.parameters.items()}
            with torch.no_grad():
                read, right = cls.counts_read(parameters, examples)
                if (r2 := explained(read, right)) is not None:
                    fitted.metrics["count_r2"] = r2
        return learned

    # --- reading ---

    def remember_for_good(self, keys: Tensor, values: Tensor) -> Tensors:
        """Tokens that the rule opens no slot for are dropped."""
        memory = self.remember(self.config, self.tensors, keys, values)
        if "log_mask" in memory:
            self.opened = memory.pop("log_mask")[0, 0].exp().bool()
            memory |= {name: memory[name][:, :, self.opened] for name in ("keys", "values")}
        return memory

    def slotted(self) -> Sequence[str]:
        return ("state",) if self.config.memory == "none" else ("keys", "values")

    def slots(self) -> int:
        return int(self.slots_over_time()[-1])

    def slots_over_time(self) -> Ints:
        if self.config.memory == "none":
            return np.full(self.length, self.config.state)
        if self.config.memory == "attention":
            return np.arange(1, self.length + 1)
        return self.opened.cpu().numpy().astype(np.int64).cumsum()

    @classmethod
    def plain_scores(
        cls, config: HybridConfig, parameters: dict[str, Floats], keys: Floats, values: Floats, queries: Floats
    ) -> Floats:
        p = parameters
        log_factor = -np.exp(p["log_rate"])
        taken = np.sqrt(1.0 - np.exp(2.0 * log_factor)) * (np.concatenate([keys, values], axis=1) @ p["token"])
        state = plain_last_state(log_factor, taken)
        cached = plain_rule(keys, config.tau) if config.memory == "dp_cache" else range(len(keys))
        scores = []
        for query in queries:
            x = np.maximum(np.concatenate([state, query]) @ p["hidden"] + p["hidden_bias"], 0.0)
            score = x @ p["readout"] + p["bias"]
            if config.memory != "none":
                score = (
                    score + plain_attention(query @ p["query"], keys[cached] @ p["key"], values[cached]) @ p["cached"]
                )
            scores.append(score)
        return np.stack(scores)


def explained(read: Tensor, right: Tensor) -> float | None:
    """R² = 1 - SSE / SST of what was `read` over what is `right`; None where that never varies."""
    spread = (right - right.mean()).square().sum()
    return 1.0 - float((read - right).square().sum() / spread) if float(spread) > 0 else None
