"""The seam of workloads that make sequences of token ids: what is trained on, and what the answers are worth."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from pydantic import Field

from models.stream import Ints
from tasks.seeds import generator
from tasks.workload import AnyWorkload, W

if TYPE_CHECKING:
    from torch import Tensor

IGNORED = -100
"""The target of a position that is not scored."""

EVALUATED_AT_ONCE = 16
"""Sequences in a batch of an evaluation, as in arXiv 2606.05175 (released code)."""

Purpose = Literal["training", "evaluation"]


@dataclass(frozen=True)
class TokenBatch:
    """B sequences of T ids, and what should follow at P positions.

    ids      [B, T]
    targets  [B, P]  the right next id, or IGNORED
    at       [P]     the positions that are scored; None: all T
    """

    ids: Ints
    targets: Ints
    at: Ints | None = None


class Reader(Protocol):
    """One trained model, in evaluation."""

    def logits(self, ids: Ints, at: Ints | None = None) -> Tensor:
        """Logits [B, P, V] at positions `at` of `ids` [B, T], in 32 bits."""

    def greedy(self, ids: Ints, count: int, stops: frozenset[int]) -> list[list[int]]:
        """For each of B prompts [B, T] up to `count` likeliest next ids, one after another, ended by one of `stops`.

        The model sees the last ids that its length has room for; ids that stop are left out.
        """


class SequenceWorkload(AnyWorkload[W]):
    """Makes sequences of token ids. Training never sees what is evaluated."""

    makes_ids: ClassVar[bool] = True
    default_episodes: ClassVar[int] = 2048
    own_metrics: ClassVar[tuple[str, ...]]
    """Names of the metrics that `evaluate` gives: `loss` is among them."""

    @classmethod
    def lengths(cls, config: W) -> tuple[int, int]:
        """Ids of the shortest and of the longest sequences that can be trained on. Reads no data."""
        return 1, cls.tokens(config)

    @classmethod
    def tested(cls, config: W) -> int:
        """Ids of the longest sequence that a model is tested on, which may be longer than any it trained on."""
        return cls.tokens(config)

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Ids are 0 .. vocabulary - 1."""

    @property
    @abstractmethod
    def length(self) -> int:
        """Ids T of the longest sequences that are trained on and scored."""

    @abstractmethod
    def training(self, seed: int, sizes: Iterable[tuple[int, int]]) -> Iterator[TokenBatch]:
        """A batch for each of `sizes`, (sequences B, their length T), one after another; the same for every model."""

    @abstractmethod
    def evaluation(self, seed: int, episodes: int) -> Iterator[TokenBatch]:
        """`episodes` sequences of full length, in batches."""

    @abstractmethod
    def evaluate(self, reader: Reader, seed: int, episodes: int) -> dict[str, float]:
        """Metrics of `reader` over `episodes` sequences."""


class DrawnWorkload(SequenceWorkload[W]):
    """Makes sequences up, one after another: they depend on what was drawn before, and not on the size of batches."""

    @property
    def length(self) -> int:
        return self.tokens(self.config)

    @abstractmethod
    def draws(self, seed: int, purpose: Purpose) -> Any:
        """What a trial's sequences are drawn from: for each purpose other ones."""

    @abstractmethod
    def batch(self, draws: Any, count: int, length: int) -> TokenBatch:
        """The next `count` sequences of `length` ids."""

    def training(self, seed: int, sizes: Iterable[tuple[int, int]]) -> Iterator[TokenBatch]:
        draws = self.draws(seed, "training")
        for count, length in sizes:
            yield self.batch(draws, count, length)

    def evaluation(self, seed: int, episodes: int) -> Iterator[TokenBatch]:
        return self.of_length(self.length, seed, episodes)

    def of_length(self, length: int, seed: int, episodes: int) -> Iterator[TokenBatch]:
        """`episodes` sequences of `length` ids to evaluate on, in batches."""
        draws = self.draws(seed, "evaluation")
        for first in range(0, episodes, EVALUATED_AT_ONCE):
            yield self.batch(draws, min(EVALUATED_AT_ONCE, episodes - first), length)

    @classmethod
    def tested(cls, config: W) -> int:
        return max((cls.tokens(config), *longer_lengths(config)))

    def recall(self, reader: Reader, seed: int, episodes: int, chance: float) -> dict[str, float]:
        """`RECALL_METRICS`, and `recall_256_ids`, ... of sequences that are longer than any trained on."""
        metrics = recall_metrics(score(reader, self.evaluation(seed, episodes)), chance)
        for length in longer_lengths(self.config):
            scored = score(reader, self.of_length(length, seed, episodes))
            metrics[f"recall_{length}_ids"] = recall_metrics(scored, chance)["recall"]
        return metrics


class ApartWorkload(DrawnWorkload[W]):
    """Draws every sequence from a generator of its own: one is the same whether or not those before it are drawn."""

    def draws(self, seed: int, purpose: Purpose) -> Iterator[np.random.Generator]:
        return (generator(seed, purpose, number) for number in itertools.count())


MostLength = Annotated[
    int | None,
    Field(
        ge=2,
        le=65536,
        description="models are also tested on sequences of 2, 4, ... times `length` ids, up to this many: "
        "recall_256_ids, ...; None: on no others",
    ),
]


def check_longer(config: Any) -> None:
    """Raises ValueError for a `most_length` that no tested length reaches."""
    if config.most_length is not None and not longer_lengths(config):
        raise ValueError(f"`most_length` {config.most_length} must be twice `length` ({config.length}) or more")


def longer_lengths(config: Any) -> tuple[int, ...]:
    """Lengths, rising, on which models are tested beside `length`."""
    length, most = config.length, getattr(config, "most_length", None) or 0
    return tuple(length << doubled for doubled in range(1, (most // length).bit_length()))


@dataclass(frozen=True)
class Scored:
    """What a model made of the scored positions of an evaluation, N in all.

    losses   [N]  -ln of the right id's probability, in nats
    answers  [N]  the likeliest ids
    targets  [N]  the right ones
    """

    losses: np.ndarray
    answers: Ints
    targets: Ints

    @property
    def loss(self) -> float:
        """Mean loss in nats."""
        return float(self.losses.mean(dtype=np.float64))


def score(reader: Reader, batches: Iterable[TokenBatch]) -> Scored:
    """What `reader` makes of `batches`."""
    from torch import from_numpy
    from torch.nn.functional import cross_entropy

    losses, answers, targets = [], [], []
    for batch in batches:
        logits = reader.logits(batch.ids, batch.at).flatten(0, 1)
        wanted = batch.targets.reshape(-1)
        asked = wanted != IGNORED
        every = cross_entropy(logits, from_numpy(wanted).to(logits.device), reduction="none", ignore_index=IGNORED)
        losses.append(every.cpu().numpy()[asked])
        answers.append(logits.argmax(1).cpu().numpy()[asked])
        targets.append(wanted[asked])
    return Scored(np.concatenate(losses), np.concatenate(answers), np.concatenate(targets))


RECALL_METRICS = ("loss", "recall", "chance", "constant", "answers", "commonest")
"""What workloads that ask for values measure.

recall     share of questions answered right, from all ids
chance     of a guess among the values
constant   the best that answering always the same gets on these very questions
answers    distinct ids that the model answers
commonest  share of its commonest answer: 1 for a constant predictor, whose recall says nothing
"""


def recall_metrics(scored: Scored, chance: float) -> dict[str, float]:
    """`RECALL_METRICS` of what was asked for."""
    total = len(scored.targets)
    given = np.bincount(scored.answers)
    return {
        "loss": scored.loss,
        "recall": float((scored.answers == scored.targets).mean()),
        "chance": chance,
        "constant": float(np.bincount(scored.targets).max() / total),
        "answers": float(np.count_nonzero(given)),
        "commonest": float(given.max() / total),
    }
