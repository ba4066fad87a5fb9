"""Multi-query associative recall: many pairs of key and value, and later every key again, asking for its value."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from models.stream import Floats, Ints, Stream
from tasks.keys import Dim
from tasks.neighbours import id_vectors, neighbours
from tasks.seeds import generator
from tasks.sequences import IGNORED, RECALL_METRICS, ApartWorkload, MostLength, Reader, TokenBatch, check_longer
from tasks.workload import Workload, WorkloadConfig, workload


class MQARConfig(WorkloadConfig):
    """Multi-query associative recall: pairs of key and value, then keys that ask (MQAR; Zoology, arXiv 2312.04927).

    Keys are 1 .. vocabulary/2 - 1, values the upper half. Few pairs or a small vocabulary are easy for any model; the
    paper takes 8,192 ids, 4 pairs at length 64 up to 64 pairs at 512.
    """

    name: Literal["mqar"] = "mqar"
    pairs: int = Field(4, ge=1, le=8192, description="pairs of key and value, at the front, no key or value twice")
    queries: int | None = Field(None, ge=1, description="keys that come again and ask, each once; None: all of them")
    length: int = Field(64, ge=4, le=65536, description="ids of a sequence; what pairs and queries leave is random")
    most_length: MostLength = None
    vocabulary: int = Field(8192, ge=4, le=1 << 20, description="ids, half of them values")
    alpha: float = Field(
        0.01,
        gt=0.0,
        le=10.0,
        description="exponent a of how far queries lie: odds ∝ distance^(a - 1), 1 is uniform",
    )
    dim: Dim = Field(64, description="width d of an id's vector, for memories that read streams: no model reads it")

    @model_validator(mode="after")
    def _has_room(self) -> MQARConfig:
        if self.asked > self.pairs:
            raise ValueError(f"`queries: {self.asked}` ask for more keys than `pairs: {self.pairs}` bring")
        if self.pairs >= self.vocabulary // 2:
            raise ValueError(f"{self.pairs} pairs need a `vocabulary` of {2 * self.pairs + 2} or more")
        if self.length < self.least_length:
            raise ValueError(f"{self.pairs} pairs, {self.asked} queries need a `length` of {self.least_length} or more")
        check_longer(self)
        return self

    @property
    def asked(self) -> int:
        """Queries of a sequence."""
        return self.pairs if self.queries is None else self.queries

    @property
    def least_length(self) -> int:
        """Ids that pairs and queries take."""
        return 2 * (self.pairs + self.asked)


@workload(MQARConfig)
class MQAR(ApartWorkload[MQARConfig], Workload[MQARConfig]):
    """K V K V ..., then two places for each query: the key, whose value is what should follow, and a random id.

    Places that no query takes are random ids of the whole vocabulary, as in the released code, so that by chance a key
    may come again unasked. Places are drawn for one key after another, so that the first pairs are asked for soonest.
    Only queries are scored, all of them.

    Memories that are not trained read the same sequences as streams: see `tasks.neighbours`.
    """

    default_episodes = 2048
    alike = False
    own_metrics = RECALL_METRICS

    @property
    def vocabulary(self) -> int:
        return self.config.vocabulary

    @property
    def chance(self) -> float:
        """Of a guess among the values."""
        return 1.0 / (self.vocabulary - self.vocabulary // 2)

    def evaluate(self, reader: Reader, seed: int, episodes: int) -> dict[str, float]:
        return self.recall(reader, seed, episodes, self.chance)

    def batch(self, draws: Iterator[np.random.Generator], count: int, length: int) -> TokenBatch:
        if length < self.config.least_length:
            raise ValueError(f"sequences of mqar need {self.config.least_length} ids or more here, not {length}")
        drawn = [self._sequence(rng, length) for rng in itertools.islice(draws, count)]
        ids, targets = (np.stack(part) for part in zip(*drawn, strict=True))
        return TokenBatch(ids, targets, self._places(length))

    def stream(self, seed: int, episode: int) -> Stream:
        length = self.config.length
        ids, targets = self._sequence(generator(seed, "evaluation", episode), length)
        vectors = id_vectors(seed, self.vocabulary, self.config.dim)
        return neighbours(ids, targets, self._places(length), vectors, self.chance)

    def _places(self, length: int) -> Ints:
        """Where a query may stand in a sequence of `length` ids."""
        return 2 * np.arange((length - 2 * self.config.pairs) // 2) + 2 * self.config.pairs

    def _sequence(self, draws: np.random.Generator, length: int) -> tuple[Ints, Ints]:
        """Ids [length], and what should follow at each place where a query may stand."""
        config = self.config
        half, pairs = config.vocabulary // 2, config.pairs
        keys = 1 + draws.choice(half - 1, pairs, replace=False)
        values = half + draws.choice(config.vocabulary - half, pairs, replace=False)
        asked = np.sort(draws.choice(pairs, config.asked, replace=False))
        logs = _log_odds((length - 2 * pairs) // 2, config.alpha)
        places = np.argsort(-logs - draws.gumbel(size=len(logs)))[: config.asked]  # drawn without replacement, in order
        ids = draws.integers(0, config.vocabulary, size=length)
        ids[: 2 * pairs] = np.stack([keys, values], axis=1).ravel()
        ids[2 * pairs + 2 * places] = keys[asked]
        targets = np.full(len(logs), IGNORED)
        targets[places] = values[asked]
        return ids, targets

    @classmethod
    def cpu_alone(cls, config: MQARConfig) -> str | None:
        return "its streams ask at other tokens each, which the CPU alone reads"

    @classmethod
    def lengths(cls, config: MQARConfig) -> tuple[int, int]:
        return config.least_length, config.length

    @classmethod
    def tokens(cls, config: MQARConfig) -> int:
        return config.length


@cache
def _log_odds(places: int, alpha: float) -> Floats:
    """Logarithm of how likely each of `places` is to be taken by a query, up to a constant."""
    logs: Floats = (alpha - 1.0) * np.log(np.arange(1, places + 1))
    return logs
