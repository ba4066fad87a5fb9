"""Learned gates: each token gets a gate g, and the memory keeps tokens by their gates (arXiv 2607.09889, §3.1.4)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from pydantic import Field

from models.config import Temperature
from models.gates_losses import Objective, mask, novelty, read_loss, top_m_recall
from models.mechanism import NEAR_ONE, Trace, Usage
from models.reference import arrivals, cosine, top, unit_keys
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream
from models.token_memory import BudgetConfig, TokenMemory, largest
from models.trained import Fitted, Init, Parameters, Streams, TrainedMechanism
from models.training import Draws, Examples, Tensors, TrainingConfig, float64, learn, read_examples

if TYPE_CHECKING:
    from torch import Tensor

FIRST_NOVELTY = 2.0
"""Novelty of the first token: that of a key opposite to every other."""

PLATEAU_STREAMS = 32


class GateConfig(BudgetConfig, TrainingConfig):
    """Options of learned gates."""

    streams: int = Field(4, ge=1, le=4096, description="streams read at each step, new ones every time")
    temperature: Temperature = Field(
        0.05, description="softmax temperature of the read, in training and after, in units of cosine"
    )
    keep: Literal["top_m", "hard"] = Field(
        "top_m", description="after training: the `budget` tokens of largest gate, or every token with g > 0.5"
    )


class MaskConfig(GateConfig):
    """Options of gates that learn from the task, through a mask."""

    objective: Objective = Field(
        "soft_mask",
        description="how the gate masks tokens in training: by g itself; rounded to 0 or 1, the gradient passed "
        "straight through; or by a binary Gumbel-softmax sample",
    )
    mask_temperature: float = Field(
        0.5, gt=0.0, le=100.0, description="temperature of the Gumbel-softmax sample; the other objectives have none"
    )
    penalty: float = Field(1.0, ge=0.0, description="weight of the budget penalty (sum of the mask / budget - 1)²")


G = TypeVar("G", bound=GateConfig)


class Gate(TrainedMechanism[G], TokenMemory[G]):
    """At the end of a phase, of all tokens so far, those are kept that the gate says; a tie goes to the oldest.

    Novelty is 1 - max cos over all earlier tokens, kept or not, so that every token read counts towards the peak.
    """

    own_metrics = (*TrainedMechanism.own_metrics, "kept_hard", "plateau_low", "plateau_high")

    @classmethod
    @abstractmethod
    def start_parameters(cls, config: G, rng: np.random.Generator, stream: Stream) -> Parameters:
        """What training starts from."""

    @classmethod
    @abstractmethod
    def logits(cls, config: G, parameters: Tensors, keys: Tensor, novelties: Tensor) -> Tensor:
        """Logits [S, B, L] of the gates of tokens with `keys` [S, B, L, d] and `novelties` [S, B, L]."""

    @classmethod
    @abstractmethod
    def plain_logit(cls, config: G, parameters: dict[str, Floats], key: Floats, novelty: float) -> float:
        """The same for one token, in float64, for reading and for tests."""

    # --- training ---

    @classmethod
    def fit(cls, config: G, seeds: Sequence[int], streams: Streams, init: Init) -> list[Fitted]:
        def loss(parameters: Tensors, examples: Examples, draws: Draws) -> Tensors:
            logits = cls.logits(config, parameters, examples.keys, novelty(examples.keys))
            recall = top_m_recall(examples, logits, config.budget, config.temperature)
            return {**cls.loss(config, examples, logits, draws), "recall": recall}

        learned = learn(config, seeds, streams, init, partial(cls.start_parameters, config), loss)
        for seed, fitted in zip(seeds, learned, strict=True):
            fitted.metrics.update(
                plateau(read_examples([seed], streams, config.steps * config.streams, PLATEAU_STREAMS))
            )
        return learned

    @classmethod
    @abstractmethod
    def loss(cls, config: G, examples: Examples, logits: Tensor, draws: Draws) -> Tensors:
        """`loss` [S], and what it is made of, of gates with `logits` [S, B, L]."""

    # --- reading ---

    def use(self, fitted: Fitted) -> None:
        import torch

        super().use(fitted)
        self.tensors = {name: torch.from_numpy(array)[None] for name, array in float64(fitted.parameters).items()}

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.scores = np.empty(len(stream))
        self.read = 0

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        import torch

        self.append(start, stop)
        seen = np.tri(stop - start, stop, start - 1, dtype=bool)
        nearest = np.where(seen, similarities.rows(start, stop), 1.0 - FIRST_NOVELTY).max(axis=1)
        novelties = np.where(nearest > NEAR_ONE, 0.0, 1.0 - nearest)
        inputs = (torch.from_numpy(part)[None, None] for part in (similarities.keys[start:stop], novelties))
        self.scores[start:stop] = self.logits(self.config, self.tensors, *inputs)[0, 0].numpy()
        self.read = stop

    def settle(self, similarities: Similarities, stop: int) -> None:
        kept = self._kept(self.scores[:stop])
        self.slots.tokens[0, : len(kept)] = kept
        self.slots.counts[0] = len(kept)

    def _kept(self, scores: Floats) -> Ints:
        if self.config.keep == "hard":
            return np.flatnonzero(scores > 0.0)
        return largest(scores - scores.min(), self.config.budget)

    def usage(self) -> Usage:
        """Every token read is held until the gate has chosen."""
        return Usage(np.array([self.read * (self.read + 1) // 2]), np.array([self.read]))

    def extras(self) -> dict[str, Floats]:
        """`kept_hard`: tokens with g > 0.5, whatever is kept."""
        return {"kept_hard": np.array([float(np.count_nonzero(self.scores[: self.read] > 0.0))])}

    @classmethod
    def reference(
        cls, stream: Stream, config: G, rng: np.random.Generator, dtype: str = "float32", fitted: Fitted | None = None
    ) -> Trace:
        if fitted is None:
            raise ValueError(f"the reference of `{config.name}` needs what it has learned")
        parameters = float64(fitted.parameters)
        keys, scores, trace = unit_keys(stream, dtype), list[float](), Trace()
        for t, phase_ends in arrivals(stream):
            nearest = max((cosine(keys[t], keys[s]) for s in range(t)), default=1.0 - FIRST_NOVELTY)
            scores.append(cls.plain_logit(config, parameters, keys[t], 0.0 if nearest > NEAR_ONE else 1.0 - nearest))
            trace.count(t + 1)
            if phase_ends and config.keep == "top_m":
                trace.record(top([score - min(scores) for score in scores], config.budget, trace), stream)
            elif phase_ends:
                for score in scores:
                    trace.decide(score)
                trace.record([s for s, score in enumerate(scores) if score > 0.0], stream)
        return trace


def task_loss(config: MaskConfig, examples: Examples, logits: Tensor, draws: Draws) -> Tensors:
    """Cross-entropy of the class read through the mask, and the penalty for a mask that is not the budget's."""
    kept = mask(logits, config.objective, config.mask_temperature, draws)
    task = read_loss(examples, kept, config.temperature)
    penalty = (kept.sum(2) / max(config.budget, 1) - 1.0).square().mean(1)
    return {"loss": task + config.penalty * penalty, "task": task, "penalty": penalty}


def plateau(examples: Examples) -> dict[str, float]:
    """Between which novelties any threshold tells new items from repeats; empty where nothing repeats.

    plateau_low: largest novelty of a repeat; plateau_high: smallest of an item's first occurrence
    """
    novelties, items = (tensor.flatten(0, 1).cpu().numpy() for tensor in (novelty(examples.keys), examples.items))
    first = np.zeros(items.shape, dtype=bool)
    for row, mark in zip(items, first, strict=True):
        mark[np.unique(row, return_index=True)[1]] = True
    if first.all():
        return {}
    return {"plateau_low": float(novelties[~first].max()), "plateau_high": float(novelties[first].min())}
