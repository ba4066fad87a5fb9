"""Associative recall in token ids: pairs of key and value, much filler, and the question for one value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field, model_validator

from models.stream import Ints
from tasks.sequences import (
    RECALL_METRICS,
    DrawnWorkload,
    MostLength,
    Purpose,
    Reader,
    TokenBatch,
    check_longer,
    recall_metrics,
    score,
)
from tasks.workload import WorkloadConfig, workload

if TYPE_CHECKING:
    from torch import Generator

VOCABULARY = 64
BOS, SEPARATOR, QUERY, ANSWER = 1, 2, 3, 4
FIRST_KEY, FIRST_VALUE, FIRST_FILLER, END_OF_FILLER = 5, 13, 21, 31
SYMBOLS = FIRST_VALUE - FIRST_KEY
"""Keys, and as many values."""

AROUND = 4
"""Tokens that are neither pairs nor filler: the first, and the question with its key and the mark of its answer."""


class TokenRecallConfig(WorkloadConfig):
    """Pairs of key and value, filler, and the question for one value (arXiv 2606.05175, recall benchmark)."""

    name: Literal["token_recall"] = "token_recall"
    pairs: int = Field(4, ge=1, le=SYMBOLS, description="pairs of key and value, at the front")
    most_pairs: int | None = Field(
        None,
        ge=2,
        le=SYMBOLS,
        description="models are also tested on sequences of more pairs, up to this number: recall_5_pairs, ...; "
        "None: on no others",
    )
    length: int = Field(128, ge=3 + AROUND, le=65536, description="ids of a sequence; what the pairs leave is filler")
    most_length: MostLength = None

    @model_validator(mode="after")
    def _has_room(self) -> TokenRecallConfig:
        if self.most_pairs is not None and self.most_pairs <= self.pairs:
            raise ValueError(f"`most_pairs` {self.most_pairs} must be above `pairs` {self.pairs}")
        most = self.most_pairs or self.pairs
        if self.length < 3 * most + AROUND:
            raise ValueError(f"{most} pairs need a `length` of {3 * most + AROUND} or more")
        check_longer(self)
        return self

    @property
    def least_length(self) -> int:
        """Ids that pairs and the question take."""
        return 3 * self.pairs + AROUND


@workload(TokenRecallConfig)
class TokenRecall(DrawnWorkload[TokenRecallConfig]):
    """BOS, (key value SEP) for each pair, filler, QUERY, key, ANSWER; only what follows is scored, a value.

    Draws are those of the released code, from one generator of torch: `seed` to train, `seed` + 1 to evaluate. The
    pairs stand at fixed positions, which is a shortcut to any model.
    """

    default_episodes = 2048
    own_metrics = RECALL_METRICS

    @property
    def vocabulary(self) -> int:
        return VOCABULARY

    def draws(self, seed: int, purpose: Purpose) -> Generator:
        import torch

        return torch.Generator().manual_seed(seed if purpose == "training" else seed + 1)

    def evaluate(self, reader: Reader, seed: int, episodes: int) -> dict[str, float]:
        metrics = self.recall(reader, seed, episodes, 1.0 / SYMBOLS)
        for pairs in range(self.config.pairs + 1, (self.config.most_pairs or 0) + 1):
            others = TokenRecall(self.config.model_copy(update={"pairs": pairs}))
            scored = score(reader, others.evaluation(seed, episodes))
            metrics[f"recall_{pairs}_pairs"] = recall_metrics(scored, 1.0 / SYMBOLS)["recall"]
        return metrics

    def batch(self, draws: Generator, count: int, length: int) -> TokenBatch:
        drawn = [self._sequence(draws, length) for _ in range(count)]
        ids, answers = (np.stack(part) for part in zip(*drawn, strict=True))
        return TokenBatch(ids, answers[:, None], np.array([length - 1]))

    def _sequence(self, draws: Generator, length: int) -> tuple[Ints, Ints]:
        """Ids [length] and the answer, in the order of draws of the released code."""
        import torch

        pairs = self.config.pairs
        keys = FIRST_KEY + torch.randperm(SYMBOLS, generator=draws)[:pairs].numpy()
        values = FIRST_VALUE + torch.randperm(SYMBOLS, generator=draws)[:pairs].numpy()
        asked = int(torch.randint(pairs, (1,), generator=draws))
        filler = torch.randint(FIRST_FILLER, END_OF_FILLER, (length - AROUND - 3 * pairs,), generator=draws).numpy()
        marks = np.full(pairs, SEPARATOR)
        front = np.stack([keys, values, marks], axis=1).ravel()
        return np.concatenate([[BOS], front, filler, [QUERY, keys[asked], ANSWER]]), values[asked]

    @classmethod
    def lengths(cls, config: TokenRecallConfig) -> tuple[int, int]:
        return config.least_length, config.length

    @classmethod
    def tokens(cls, config: TokenRecallConfig) -> int:
        return config.length
