"""Conflicting values: one key, and now and then another value."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from models.stream import Ints, Stream
from tasks.asking import asked_at_the_end
from tasks.keys import Dim, Noise, QueryNoise, noisy, random_keys
from tasks.seeds import generator
from tasks.workload import Workload, WorkloadConfig, workload


class ConflictingValuesConfig(WorkloadConfig):
    """Associative recall in which a token carries, with probability `conflict`, another class than its item's own.

    The paper says nothing about keys that return with another value; `answer` says which value is right.
    """

    name: Literal["conflicting_values"] = "conflicting_values"
    items: int = Field(64, ge=1, description="distinct items K")
    repeats: int = Field(4, ge=1, description="tokens of each item")
    conflict: float = Field(
        0.2, ge=0.0, le=1.0, description="probability that a token carries one of the other classes"
    )
    answer: Literal["own", "majority", "first", "last"] = Field(
        "majority",
        description="right value of an item: its own class, or what its tokens said most often (ties: the lowest "
        "class), first or last",
    )
    classes: int = Field(16, ge=2, description="classes a value is drawn from, uniformly")
    dim: Dim = 32
    noise: Noise = 0.3
    query_noise: QueryNoise = 0.0

    @model_validator(mode="after")
    def _answer_exists(self) -> ConflictingValuesConfig:
        if self.answer == "own" and self.conflict == 1.0:
            raise ValueError("with conflict 1 no token carries its item's own class; ask for another answer")
        return self


@workload(ConflictingValuesConfig)
class ConflictingValues(Workload[ConflictingValuesConfig]):
    """One phase at the end, which asks for every item; `recall` counts one of them, drawn uniformly."""

    def stream(self, seed: int, episode: int) -> Stream:
        config = self.config
        rng = generator(seed, "stream", episode)
        everything = np.arange(config.items)
        base = random_keys(config.items, config.dim, rng)
        own = rng.integers(config.classes, size=config.items)
        items = rng.permutation(np.repeat(everything, config.repeats))
        keys = noisy(base[items], config.noise, rng)
        others = (own[items] + rng.integers(1, config.classes, size=len(items))) % config.classes
        values = np.where(rng.random(len(items)) < config.conflict, others, own[items])
        answers = own if config.answer == "own" else said(config.answer, items, values, config.classes)
        return asked_at_the_end(
            keys,
            values,
            items,
            asked=everything,
            clean=base,
            answers=answers,
            classes=config.classes,
            query_noise=config.query_noise,
            seed=seed,
            episode=episode,
        )

    @classmethod
    def tokens(cls, config: ConflictingValuesConfig) -> int:
        return config.items * config.repeats


def said(which: Literal["majority", "first", "last"], items: Ints, values: Ints, classes: int) -> Ints:
    """What the tokens of each item [K] said most often (ties: the lowest class), first or last; every item occurs."""
    if which == "majority":
        counts = np.zeros((items.max() + 1, classes), dtype=np.int64)
        np.add.at(counts, (items, values), 1)
        majority: Ints = counts.argmax(axis=1)
        return majority
    order = slice(None) if which == "first" else slice(None, None, -1)
    return values[order][np.unique(items[order], return_index=True)[1]]
