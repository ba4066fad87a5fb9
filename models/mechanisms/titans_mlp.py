"""A Titans memory of two layers: a small network that is trained on each token as it comes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.fixed_state import one_hot
from models.kernel import kernel
from models.mechanism import Trace, best_class, mechanism, scored
from models.reference import arrivals, unit_keys
from models.similarity import QueryBlock
from models.stream import Floats, Ints, Phase, Stream, unit
from models.titans import TitansConfig, TitansMemory

SPREAD = 0.3989422804014327
"""Height of the normal density at 0: what the slope of GELU is made of."""


class TitansMLPConfig(TitansConfig):
    """Gradient descent on |v - f(k)|^2 with momentum and forgetting, of a network f (Titans, arXiv 2501.00663, 3.1).

    f(k) = gelu(k W) V / sqrt(hidden). Kept: the deep memory, its surprise as gradient and momentum, and the weight
    decay. Left out: the learned projections and first weights (W starts as normal draws, V as 0, so that nothing is
    said at first), the gates that make rates of tokens (they are constants here), descent in chunks of tokens, the
    residual connection, and the attention and the persistent memory around it. The division lets a rate mean the same
    at any width.
    """

    name: Literal["titans_mlp"] = "titans_mlp"
    theta: float = Field(0.1, ge=1e-6, le=1.0, description="rate of the descent: how far a token's surprise moves it")
    hidden: int = Field(64, ge=1, le=4096, description="hidden units of the network")


@mechanism(TitansMLPConfig)
class TitansMLP(TitansMemory[TitansMLPConfig]):
    """Write O(hidden (d + classes)), read O(hidden (d + classes)). A slot is a hidden unit with its weights.

    Beside its d + classes weights a unit has their momentum (none where `eta` is 0). Scores within 1e-9 of the largest
    are tied, and the lowest class is read. Large rates diverge, which is told as scores that are not finite.
    """

    seed_free: ClassVar[bool] = False
    writes_vectors: ClassVar[bool] = True

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.states[:, :, : stream.dim] = draw_weights(self.config.hidden, stream.dim, rng)

    def rows(self, dim: int) -> int:
        return self.config.hidden

    def width(self) -> int:
        return self.stream.dim + self.target_width()

    def update(self, features: Floats, values: Ints) -> None:
        train(features, self.targets(values), self.rates, self.momenta, self.states)

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        predicted = np.stack([self.read(block.queries, state) for state in self.states])
        return scored(predicted, block, phase)

    def read(self, queries: Floats, state: Floats) -> Ints:
        """Class [Q] that a network answers to queries [Q, d] with."""
        return best_class(self.said(queries, state))

    def said(self, queries: Floats, state: Floats) -> Floats:
        """What a network gives for queries [Q, d], a number each of a target [Q, w]."""
        scores = np.zeros((len(queries), self.target_width()))
        respond(queries, state, scores)
        return scores

    def outputs(self, queries: Floats) -> Floats:
        return np.stack([self.said(queries, state) for state in self.states])

    def reader(self) -> Callable[[Floats], int]:
        state = self.states[0]
        return lambda query: int(self.read(query[None], state)[0])

    @classmethod
    def reference(
        cls, stream: Stream, config: TitansMLPConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        keys, targets, scale = unit_keys(stream, dtype), one_hot(stream), 1.0 / math.sqrt(config.hidden)
        inward, outward = draw_weights(config.hidden, stream.dim, rng), np.zeros((config.hidden, stream.classes))
        momenta = [np.zeros_like(inward), np.zeros_like(outward)]
        queries = {phase.end: unit(phase.queries) for phase in stream.phases}
        trace = Trace()
        for t, phase_ends in arrivals(stream):
            sums = inward @ keys[t]
            units = np.array([gelu(x) for x in sums])
            error = targets[t] - units @ outward * scale
            slopes = np.array([gelu_slope(x) for x in sums])
            gradients = [
                -2.0 * scale * np.outer(outward @ error * slopes, keys[t]),
                -2.0 * scale * np.outer(units, error),
            ]
            momenta = [config.eta * m - config.theta * g for m, g in zip(momenta, gradients, strict=True)]
            inward = (1.0 - config.alpha) * inward + momenta[0]
            outward = (1.0 - config.alpha) * outward + momenta[1]
            trace.count(config.hidden)
            if phase_ends:
                trace.states.append(np.concatenate([inward, outward], axis=1))
                units = np.array([[gelu(x) for x in inward @ query] for query in queries[t + 1]])
                trace.scores.append(units.reshape(-1, config.hidden) @ outward * scale)
        return trace


def draw_weights(hidden: int, dim: int, rng: np.random.Generator) -> Floats:
    """First weights [hidden, dim] of unit keys: normal draws, so that what units add up is normal, too."""
    return rng.standard_normal((hidden, dim))


@kernel
def gelu(x: float) -> float:
    """x times the normal probability of less than x."""
    return 0.5 * x * math.erfc(-x * math.sqrt(0.5))


@kernel
def gelu_slope(x: float) -> float:
    """The derivative of `gelu`."""
    return 0.5 * math.erfc(-x * math.sqrt(0.5)) + x * SPREAD * math.exp(-0.5 * x * x)


@kernel
def respond(queries: Floats, state: Floats, scores: Floats) -> None:
    """Add to `scores` [Q, classes] what the network of weights `state` [hidden, d + classes] says of queries [Q, d]."""
    dim, scale = queries.shape[1], 1.0 / math.sqrt(len(state))
    for q in range(len(queries)):
        for j in range(len(state)):
            total = 0.0
            for i in range(dim):
                total += queries[q, i] * state[j, i]
            said = gelu(total) * scale
            for k in range(scores.shape[1]):
                scores[q, k] += said * state[j, dim + k]


@kernel
def train(keys: Floats, targets: Floats, rates: Floats, momenta: Floats, states: Floats) -> None:
    """Take one step of descent for each of keys [b, d] with `targets` [b, w] in C networks [C, hidden, d + w].

    rates [C, 3]: theta, eta, alpha; momenta: of the networks' shape.
    """
    hidden, dim = states.shape[1], keys.shape[1]
    width, scale = states.shape[2] - dim, 1.0 / math.sqrt(hidden)
    sums, error = np.empty(hidden), np.empty(width)
    for c in range(len(states)):
        theta, eta, kept = rates[c, 0], rates[c, 1], 1.0 - rates[c, 2]
        for t in range(len(keys)):
            error[:] = targets[t]
            for j in range(hidden):
                sums[j] = 0.0
                for i in range(dim):
                    sums[j] += keys[t, i] * states[c, j, i]
                said = gelu(sums[j]) * scale
                for k in range(width):
                    error[k] -= said * states[c, j, dim + k]
            for j in range(hidden):
                state, momentum = states[c, j], momenta[c, j]
                blame = 0.0
                for k in range(width):
                    blame += error[k] * state[dim + k]
                blame *= 2.0 * theta * scale * gelu_slope(sums[j])
                said = 2.0 * theta * scale * gelu(sums[j])
                for i in range(dim):
                    momentum[i] = eta * momentum[i] + blame * keys[t, i]
                    state[i] = kept * state[i] + momentum[i]
                for k in range(width):
                    momentum[dim + k] = eta * momentum[dim + k] + said * error[k]
                    state[dim + k] = kept * state[dim + k] + momentum[dim + k]
