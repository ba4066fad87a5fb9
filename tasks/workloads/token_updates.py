"""Recall of the latest value in token ids: keys told again with other values, keys nobody asks for, at any place."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from models.stream import Ints
from tasks.sequences import RECALL_METRICS, ApartWorkload, MostLength, Reader, TokenBatch, check_longer
from tasks.workload import WorkloadConfig, workload

BOS, SEPARATOR, QUERY, ANSWER = 1, 2, 3, 4
SYMBOLS = 16
"""Keys, and as many values."""

FIRST_KEY = 5
FIRST_VALUE = FIRST_KEY + SYMBOLS
FIRST_FILLER = FIRST_VALUE + SYMBOLS
END_OF_FILLER = FIRST_FILLER + 10

AROUND = 4
"""Ids that are neither told nor filler: the first, and the question with its key and the mark of its answer."""


class TokenUpdatesConfig(WorkloadConfig):
    """Keys told with one value after another, distractors, filler, and the question for the latest value of one key.

    As `token_recall`, without its shortcut that pairs stand at fixed places.
    """

    name: Literal["token_updates"] = "token_updates"
    pairs: int = Field(4, ge=1, le=SYMBOLS, description="keys of which one is asked for")
    changes: int = Field(1, ge=0, le=64, description="times that each of them is told again, with another value")
    distractors: int = Field(4, ge=0, le=SYMBOLS - 1, description="keys that are told once and never asked for")
    length: int = Field(128, ge=3 + AROUND, le=65536, description="ids of a sequence; what is told leaves is filler")
    most_length: MostLength = None

    @model_validator(mode="after")
    def _has_room(self) -> TokenUpdatesConfig:
        if self.pairs + self.distractors > SYMBOLS:
            raise ValueError(f"`pairs` and `distractors` are {self.pairs + self.distractors} keys; there are {SYMBOLS}")
        if self.length < self.least_length:
            raise ValueError(f"{self.told} keys and values told need a `length` of {self.least_length} or more")
        check_longer(self)
        return self

    @property
    def told(self) -> int:
        """Times that a key is told with a value."""
        return self.pairs * (1 + self.changes) + self.distractors

    @property
    def least_length(self) -> int:
        """Ids that what is told takes, and the question."""
        return 3 * self.told + AROUND


@workload(TokenUpdatesConfig)
class TokenUpdates(ApartWorkload[TokenUpdatesConfig]):
    """BOS, then (key value SEP) and filler in random order, QUERY, key, ANSWER; only what follows is scored, a value.

    A key that is told again has another value than just before; right is the last one.
    """

    own_metrics = RECALL_METRICS

    @property
    def vocabulary(self) -> int:
        return END_OF_FILLER

    def evaluate(self, reader: Reader, seed: int, episodes: int) -> dict[str, float]:
        return self.recall(reader, seed, episodes, 1.0 / SYMBOLS)

    def batch(self, draws: Iterator[np.random.Generator], count: int, length: int) -> TokenBatch:
        if length < self.config.least_length:
            raise ValueError(f"sequences of token_updates need {self.config.least_length} ids or more, not {length}")
        drawn = [self._sequence(rng, length) for rng in itertools.islice(draws, count)]
        ids, answers = zip(*drawn, strict=True)
        return TokenBatch(np.stack(ids), np.array(answers)[:, None], np.array([length - 1]))

    def _sequence(self, rng: np.random.Generator, length: int) -> tuple[Ints, int]:
        """Ids [length] and the answer."""
        config = self.config
        keys = FIRST_KEY + rng.choice(SYMBOLS, config.pairs + config.distractors, replace=False)
        each = np.repeat(np.arange(len(keys)), [1 + config.changes] * config.pairs + [1] * config.distractors)
        latest = rng.integers(SYMBOLS, size=len(keys))
        told = []
        for key in rng.permutation(each):
            latest[key] = (latest[key] + rng.integers(1, SYMBOLS)) % SYMBOLS
            told.append((keys[key], FIRST_VALUE + latest[key], SEPARATOR))
        asked = rng.integers(config.pairs)
        body = _spread(rng, np.array(told), length - AROUND)
        ids = np.concatenate([[BOS], body, [QUERY, keys[asked], ANSWER]])
        return ids, int(FIRST_VALUE + latest[asked])

    @classmethod
    def lengths(cls, config: TokenUpdatesConfig) -> tuple[int, int]:
        return config.least_length, config.length

    @classmethod
    def tokens(cls, config: TokenUpdatesConfig) -> int:
        return config.length


def _spread(rng: np.random.Generator, told: Ints, length: int) -> Ints:
    """Rows of `told` [W, 3] in their order, at random places among filler, `length` ids in all."""
    filler = length - told.size
    starts = np.sort(rng.choice(len(told) + filler, len(told), replace=False)) + 2 * np.arange(len(told))
    ids = rng.integers(FIRST_FILLER, END_OF_FILLER, size=length)
    ids[starts[:, None] + np.arange(3)] = told
    return ids
