"""Heavy-hitter oracle: keep the tokens that have drawn most attention."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from models.config import ReadTemperature, Temperature
from models.kernel import kernel
from models.mechanism import TIE, Trace, mechanism
from models.reference import arrivals, attention, lowest, top, unit_keys
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream
from models.token_memory import BudgetConfig, OnlineMemory, largest, remove


class H2OConfig(BudgetConfig):
    """Heavy-hitter oracle: evict the token that has drawn least attention (H2O, arXiv 2306.14048, Sec. 4)."""

    name: Literal["h2o"] = "h2o"
    variant: Literal["heavy_hitter", "half_recent", "no_own_mass", "observed_mean"] = Field(
        "heavy_hitter",
        description="heavy_hitter: at each token the least attended slot leaves; half_recent: the same, but the newest "
        "budget // 2 are safe; no_own_mass: the same, but attention of a token to itself does not count; "
        "observed_mean: at a phase end the slots of highest mean attention stay",
    )
    temperature: Temperature = Field(0.13, description="softmax temperature of the scores, in units of cosine")
    read_temperature: ReadTemperature = Field(
        0.05, description="softmax temperature of the read, in units of cosine; `argmax` reads the single best slot"
    )

    @property
    def reading(self) -> ReadTemperature:
        """The temperature at which the slots are read."""
        return self.read_temperature

    @property
    def protected(self) -> int:
        """Newest slots that cannot be evicted."""
        return self.budget // 2 if self.variant == "half_recent" else 0

    @property
    def own_mass(self) -> bool:
        """Whether a token's attention to itself counts."""
        return self.variant != "no_own_mass"


@mechanism(H2OConfig)
class H2O(OnlineMemory[H2OConfig]):
    """Write O(B d), read O(B d); `observed_mean` writes O(N d) and holds all of a phase until its end.

    A new token enters first and attends to all that is held, itself included; its attention is added to the scores,
    and its own mass competes: it may be the one to leave. Under `no_own_mass` it enters with nothing and leaves at
    once where all others have drawn attention. Ties: the oldest slot leaves, under `observed_mean` the newest. There a
    token that outlives its phase keeps its sum; the mean is over all tokens since it arrived.
    """

    def capacity(self, config: H2OConfig, length: int) -> int:
        return length if config.variant == "observed_mean" else super().capacity(config, length)

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.protected = np.array([config.protected for config in self.configs], dtype=np.int64)
        self.score = np.zeros(self.slots.tokens.shape)

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        if self.config.variant == "observed_mean":
            self.append(start, stop)
            weights = similarities.score_weights(self.config.temperature, start, stop)
            observe(weights, self.slots.counts, self.slots.tokens, self.score)
        else:
            super().write(similarities, start, stop)

    def update(self, similarities: Similarities, start: int, stop: int) -> None:
        weights = similarities.score_weights(self.config.temperature, start, stop)
        own_mass = self.config.own_mass
        evict_unnoticed(weights, start, self.budget, self.protected, own_mass, self.slots.tokens, self.score)

    def settle(self, similarities: Similarities, stop: int) -> None:
        if self.config.variant != "observed_mean":
            return
        for c, (budget, count) in enumerate(zip(self.budget, self.slots.counts, strict=True)):
            means = self.score[c, :count] / (stop - self.slots.tokens[c, :count])
            kept = largest(means, budget)
            self.score[c, : len(kept)] = self.score[c, kept]
            self.keep(c, kept)

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[int, int]:
        """A score of 4 bytes a slot; for a mean also the time of arrival, of 4."""
        body, _ = super().bytes_per_slot(dim, key_bytes)
        return body, 8 if self.config.variant == "observed_mean" else 4

    @classmethod
    def reference(cls, stream: Stream, config: H2OConfig, rng: np.random.Generator, dtype: str = "float32") -> Trace:
        keys = unit_keys(stream, dtype)
        trace = Trace()
        held: list[int] = []
        score = [0.0] * len(stream)
        for t, phase_ends in arrivals(stream):
            held.append(t)
            for token, share in zip(held, attention(keys, t, held, config.temperature), strict=True):
                score[token] += share if token != t or config.own_mass else 0.0
            if config.variant != "observed_mean" and len(held) > config.budget:
                candidates = held[: len(held) - config.protected]
                del held[lowest([score[token] for token in candidates], trace, relative=True)]
            trace.count(len(held))
            if phase_ends:
                if config.variant == "observed_mean":
                    means = [score[token] / (t + 1 - token) for token in held]
                    held = [held[slot] for slot in top(means, config.budget, trace)]
                trace.record(held, stream)
        return trace


@kernel
def evict_unnoticed(
    weights: Floats, first: int, budget: Ints, protected: Ints, own_mass: bool, tokens: Ints, score: Floats
) -> None:
    """Offer a block of tokens to C memories with `tokens` [C, cap] and summed attention `score` [C, cap].

    weights [b, n]: softmax numerators of the block's tokens over all tokens; the newest `protected` [C] slots stay;
    own_mass: whether the attention of a token to itself is added.
    """
    attention = np.empty(score.shape[1])
    for c in range(len(budget)):
        count = min(first, budget[c])
        for r in range(len(weights)):
            tokens[c, count] = first + r
            score[c, count] = 0.0
            count += 1
            attend(weights[r], count, tokens[c], score[c], attention)
            if not own_mass:
                score[c, count - 1] = 0.0
            if count > budget[c]:
                victim, border = 0, score[c, 0] * (1.0 - TIE)
                for slot in range(1, count - protected[c]):
                    if score[c, slot] < border:
                        victim, border = slot, score[c, slot] * (1.0 - TIE)
                remove(victim, count, tokens[c])
                remove(victim, count, score[c])
                count -= 1


@kernel
def observe(weights: Floats, counts: Ints, tokens: Ints, score: Floats) -> None:
    """Add the attention of the newest tokens, with softmax numerators `weights` [b, n], to C memories that hold them.

    Memories that still hold every token have equal scores, so these are computed once.
    """
    block, seen = weights.shape
    attention = np.empty(score.shape[1])
    whole = -1
    for c in range(len(counts)):
        if counts[c] == seen and whole >= 0:
            for slot in range(seen):
                score[c, slot] = score[whole, slot]
            continue
        if counts[c] == seen:
            whole = c
        for r in range(block):
            newest = counts[c] - block + r
            score[c, newest] = 0.0
            attend(weights[r], newest + 1, tokens[c], score[c], attention)


@kernel
def attend(weights: Floats, count: int, tokens: Ints, score: Floats, attention: Floats) -> None:
    """Add softmax attention with numerators `weights` [n] over the first `count` slots to their scores."""
    total = 0.0
    for slot in range(count):
        attention[slot] = weights[tokens[slot]]
        total += attention[slot]
    for slot in range(count):
        score[slot] += attention[slot] / total
