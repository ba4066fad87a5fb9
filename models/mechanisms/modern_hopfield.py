"""Modern Hopfield network: a query moves towards what is stored, then reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.attending import AttentionBlock, numerators
from models.config import SlotConfig
from models.mechanism import ABSTAINED, Trace, mechanism
from models.reference import unit_keys
from models.selective_memory import SelectiveMemory, keep_and_ask, reference_shares
from models.similarity import QueryBlock, softmax_numerators
from models.stream import Floats, Phase, Stream, unit


class ModernHopfieldConfig(SlotConfig):
    """Continuous Hopfield network: xi <- X softmax(beta X'xi), beta = 1/temperature (arXiv 2008.02217, Eq. 3).

    Kept: the update, from the query on, with every key a stored pattern. The last step reads values in place of keys,
    as the paper's Hopfield layer does; with one step it is full attention. Left out: the projections that layers learn.
    """

    name: Literal["modern_hopfield"] = "modern_hopfield"
    steps: int = Field(
        1, ge=1, le=1000, description="updates of a query, the read included; with `argmax` the first is the last"
    )


@mechanism(ModernHopfieldConfig)
class ModernHopfield(SelectiveMemory[ModernHopfieldConfig]):
    """Append O(1), read O(steps N d). Size grows with the stream: every pattern is kept. Nothing ties but classes."""

    batch_over: ClassVar[tuple[str, ...]] = ("steps",)

    def shares(self, c: int, block: QueryBlock, phase: Phase) -> Floats:
        reading, steps = self.config.reading, self.configs[c].steps
        if reading == "argmax":
            return block.cosines
        if steps == 1:
            return block.read_weights(reading)
        states = block.queries
        for _ in range(steps - 1):
            states = update(states, self.keys, reading)
        return softmax_numerators(states @ self.keys.T, reading)

    def attends(self, c: int, block: AttentionBlock, phase: Phase) -> Floats:
        """Updates of the layer's own queries over its own keys, at its scale: with one step full attention."""
        logits = block.logits
        for _ in range(1 if self.config.reading == "argmax" else self.configs[c].steps, 1, -1):
            weights = numerators(logits)
            logits = weights @ block.raw_keys / weights.sum(axis=1, keepdims=True) @ block.raw_keys.T * block.scale
        return numerators(logits)

    def reader(self) -> Callable[[Floats], int]:
        """As many products with all keys as there are steps: O(steps N d)."""
        if self.config.reading == "argmax":
            return super().reader()
        steps, reading, classes = self.config.steps, self.config.reading, self.stream.classes
        keys, values = self.keys.astype(np.float32), self.token_values[: len(self.keys)]

        def read(query: Floats) -> int:
            if not len(keys):
                return ABSTAINED
            state = query.astype(np.float32)
            for _ in range(steps - 1):
                weights = np.exp((keys @ state - 1.0) / reading)
                state = weights @ keys / weights.sum()
            return int(np.bincount(values, np.exp((keys @ state - 1.0) / reading), classes).argmax())

        return read

    @classmethod
    def reference(
        cls, stream: Stream, config: ModernHopfieldConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        keys, trace, reading = unit_keys(stream, dtype), Trace(), config.reading

        def shares(phase: Phase) -> Iterator[Floats]:
            patterns = keys[: phase.end]
            for query in unit(phase.queries):
                state = query
                if reading != "argmax":
                    for _ in range(config.steps - 1):
                        attention = np.exp((patterns @ state - 1.0) / reading)
                        state = patterns.T @ (attention / attention.sum())
                yield reference_shares(patterns @ state, range(phase.end), reading, trace)

        return keep_and_ask(stream, trace, shares)


def update(states: Floats, keys: Floats, temperature: float) -> Floats:
    """Hopfield states [Q, d] after one more update over stored keys [n, d]: as long as a unit key, or shorter."""
    attention = softmax_numerators(states @ keys.T, temperature)
    updated: Floats = (attention / attention.sum(axis=1, keepdims=True)) @ keys
    return updated
