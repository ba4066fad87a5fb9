"""The long-term memory of the infinite-former: the past as a continuous signal over [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from models.config import MechanismConfig, Temperature
from models.fixed_state import NUMBER_BYTES, FixedSize, one_hot, read_state
from models.mechanism import VALUE_BYTES, Trace, mechanism, scored
from models.reference import arrivals, unit_keys
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream, unit

MOST_NUMBERS = 1 << 23
"""Heights of bumps at the points of a fit: 64 MiB. A config has two such matrices, and its group one more."""


class InfiniteFormerConfig(MechanismConfig):
    """Keys and values as a sum of `basis` Gaussian bumps over time, fitted by ridge (arXiv 2109.00301, Sec. 3).

    The first chunk of tokens is spread over [0, 1]; each later one squeezes what there is into [0, tau], sampled at
    some points, takes the rest, and is fitted anew with it. Kept: the fit, the contraction, sticky memories, and
    attention as the mean of the values' signal under a density over time. Left out: the projections, the attention to
    recent tokens beside it, and the affine maps that the density's mean and variance are learned by: without these the
    original takes them from a softmax over the bumps, which is `density: gaussian`. Bumps are of one width. Sticky
    memories sample the past where the arriving tokens attend to it, always by Gaussians (sharper attention would feed
    on what it overshoots), and at quantiles, not at random.
    """

    name: Literal["infinite_former"] = "infinite_former"
    basis: int = Field(64, ge=1, le=4096, description="bumps, evenly spaced over [0, 1]")
    spread: float = Field(1.0, ge=0.1, le=10.0, description="standard deviation of a bump, in units of their spacing")
    ridge: float = Field(1e-3, ge=1e-6, le=1e6, description="weight of the squared coefficients in the fit")
    tau: float = Field(0.75, gt=0.0, lt=1.0, description="share of [0, 1] that the past keeps when a chunk arrives")
    chunk: int = Field(64, ge=1, le=65536, description="tokens that are fitted at once")
    samples: int = Field(512, ge=1, le=65536, description="points at which the past and attention are sampled")
    sticky: bool = Field(False, description="sample the past where attention is, not evenly")
    density: Literal["softmax", "gaussian"] = Field(
        "softmax",
        description="how attention spreads over time; softmax: exp(q K(t) / temperature); gaussian: one bell, with the "
        "mean and the variance of the bumps weighed by the softmax of the query's products with their keys",
    )
    temperature: Temperature = Field(0.05, description="softmax temperature of the read, in units of cosine")

    @model_validator(mode="after")
    def _fit_fits(self) -> InfiniteFormerConfig:
        if self.basis * (self.samples + self.chunk) > MOST_NUMBERS:
            raise ValueError(
                f"{self.basis:,} bumps at {self.samples:,} samples and {self.chunk:,} tokens are more than "
                f"{MOST_NUMBERS:,} heights, which fill the memory; set `basis`, `samples` or `chunk` lower"
            )
        return self


@mechanism(InfiniteFormerConfig)
class InfiniteFormer(FixedSize[InfiniteFormerConfig]):
    """Write O(basis (samples + chunk) (d + classes) / chunk), read O(basis (samples + d + classes)), basis slots.

    A slot is a bump's coefficients: a key and a number a class. Beside them there are the tokens of an unfinished
    chunk. At a phase end these are fitted as a chunk for the read, which leaves the memory as it was. Scores are tied
    where they differ by less than the rounding of their sums, as in `FixedState`: between bumps that are far apart all
    are next to nothing.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("ridge", "tau", "sticky", "density", "temperature")

    def __init__(self, configs: Sequence[InfiniteFormerConfig]) -> None:
        super().__init__(configs)
        self.shape = bumps(midpoints(self.config.samples), self.config)
        self.fits = {
            (config.ridge, tau): fit(config, tau, config.chunk) for config in configs for tau in (0.0, config.tau)
        }

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.past: list[Floats | None] = [None] * len(self)
        self.waiting = np.zeros((0, self.width()))

    def rows(self, dim: int) -> int:
        return self.config.basis

    def width(self) -> int:
        return self.stream.dim + self.stream.classes

    def bytes_fixed(self) -> int:
        """The tokens of an unfinished chunk."""
        return self.config.chunk * (NUMBER_BYTES * self.stream.dim + VALUE_BYTES)

    def update(self, features: Floats, values: Ints) -> None:
        self.waiting = np.concatenate([self.waiting, np.concatenate([features, self.targets(values)], axis=1)])
        while len(self.waiting) >= self.config.chunk:
            chunk, self.waiting = self.waiting[: self.config.chunk], self.waiting[self.config.chunk :]
            self.past = [self.taken_in(*pair, chunk) for pair in zip(self.configs, self.past, strict=True)]

    def settle(self, similarities: Similarities, stop: int) -> None:
        """Fit what waits, for the queries to come alone."""
        for c, (config, past) in enumerate(zip(self.configs, self.past, strict=True)):
            if past is None or len(self.waiting):
                self.states[c] = self.taken_in(config, past, self.waiting)
            else:
                self.states[c] = past

    def taken_in(self, config: InfiniteFormerConfig, past: Floats | None, chunk: Floats) -> Floats:
        """Coefficients [basis, d + classes] of `past` with a chunk of tokens [n, d + classes]."""
        tau = 0.0 if past is None else config.tau
        whole = len(chunk) == config.chunk
        solution = self.fits[config.ridge, tau] if whole else fit(config, tau, len(chunk))
        if past is None:
            return np.asarray(solution @ chunk)
        shape = self.shape
        if config.sticky:
            points = midpoints(config.samples)
            mean, variance = bell(chunk[:, : self.stream.dim], past, config)
            paid = softmax(-0.5 * (points - mean) ** 2 / variance)
            shape = bumps(quantiles(paid.sum(axis=0), points), config)
        return np.asarray(solution @ np.concatenate([shape @ past, chunk]))

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        predicted = [
            self.read(block.queries, state, config) for config, state in zip(self.configs, self.states, strict=True)
        ]
        return scored(np.stack(predicted), block, phase)

    def read(self, queries: Floats, state: Floats, config: InfiniteFormerConfig) -> Ints:
        """Class [Q] of which the values' signal has most, in the mean under each query's density."""
        return read_state(self.heights(queries, state, config), state[:, self.stream.dim :])

    def heights(self, queries: Floats, state: Floats, config: InfiniteFormerConfig) -> Floats:
        """Mean heights [Q, basis] of the bumps under each query's density."""
        if config.density == "gaussian":
            mean, variance = bell(queries, state, config)
            total = variance + deviation(config) ** 2
            apart = mean - midpoints(config.basis)
            return np.asarray(np.exp(-0.5 * apart**2 / total) * deviation(config) / np.sqrt(total))
        products = queries @ state[:, : self.stream.dim].T
        return np.asarray(softmax(products @ self.shape.T / config.temperature) @ self.shape)

    def reader(self) -> Callable[[Floats], int]:
        state, config = self.states[0], self.config
        return lambda query: int(self.read(query[None], state, config)[0])

    @classmethod
    def reference(
        cls, stream: Stream, config: InfiniteFormerConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        tokens = np.concatenate([unit_keys(stream, dtype), one_hot(stream)], axis=1)
        queries = {phase.end: unit(phase.queries) for phase in stream.phases}
        sampled = np.array([plain_bumps((i + 0.5) / config.samples, config) for i in range(config.samples)])
        trace, past, fitted = Trace(), np.zeros((0, tokens.shape[1])), 0
        for t, phase_ends in arrivals(stream):
            chunk, whole = tokens[fitted : t + 1], t + 1 - fitted == config.chunk
            now = plain_fit(past, chunk, stream.dim, config) if whole or phase_ends else past
            if whole:
                past, fitted = now, t + 1
            trace.count(config.basis)
            if phase_ends:
                trace.states.append(now)
                heights = [plain_heights(query, now, sampled, config) for query in queries[t + 1]]
                trace.query_features.append(np.array(heights).reshape(-1, config.basis))
        return trace


def midpoints(count: int) -> Floats:
    """Middles of `count` equal parts of [0, 1]."""
    return (np.arange(count) + 0.5) / count


def deviation(config: InfiniteFormerConfig) -> float:
    """Standard deviation of a bump."""
    return config.spread / config.basis


def bumps(times: Floats, config: InfiniteFormerConfig) -> Floats:
    """Heights [n, basis] of the bumps at `times` [n]; 1 at the middle of each."""
    apart = (times[:, None] - midpoints(config.basis)) / deviation(config)
    return np.asarray(np.exp(-0.5 * apart**2))


def fit(config: InfiniteFormerConfig, tau: float, tokens: int) -> Floats:
    """What makes coefficients of a signal: [basis, samples + tokens], or [basis, tokens] where `tau` is 0."""
    old = tau * midpoints(config.samples) if tau else np.zeros(0)
    shape = bumps(np.concatenate([old, tau + (1.0 - tau) * midpoints(tokens)]), config)
    return np.asarray(np.linalg.solve(shape.T @ shape + config.ridge * np.eye(config.basis), shape.T))


def softmax(scores: Floats) -> Floats:
    """Shares [n, m] of each row."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def bell(queries: Floats, state: Floats, config: InfiniteFormerConfig) -> tuple[Floats, Floats]:
    """Mean and variance [Q, 1] of the bumps, weighed by softmax of the products of `queries` [Q, d] with their keys."""
    shares = softmax(queries @ state[:, : queries.shape[1]].T / config.temperature)
    middles = midpoints(config.basis)
    mean = shares @ middles
    return mean[:, None], (shares @ middles**2 - mean**2 + deviation(config) ** 2)[:, None]


def quantiles(weights: Floats, levels: Floats) -> Floats:
    """Times before which shares `levels` of `weights` lie, each spread over its own of equal parts of [0, 1]."""
    borders = np.linspace(0.0, 1.0, len(weights) + 1)
    before = np.concatenate([[0.0], np.cumsum(weights)]) / weights.sum()
    return np.asarray(np.interp(levels, before, borders), dtype=np.float64)


def plain_bumps(time: float, config: InfiniteFormerConfig) -> Floats:
    """Heights [basis] of the bumps at one time."""
    apart = [(time - (j + 0.5) / config.basis) * config.basis / config.spread for j in range(config.basis)]
    return np.array([math.exp(-0.5 * x * x) for x in apart])


def plain_fit(past: Floats, chunk: Floats, dim: int, config: InfiniteFormerConfig) -> Floats:
    """Coefficients of a past (none: of no rows) with a chunk, as a least-squares problem."""
    tau = config.tau if len(past) else 0.0
    times = [tau + (1.0 - tau) * (i + 0.5) / len(chunk) for i in range(len(chunk))]
    signal = list(chunk)
    if len(past):
        levels = [(i + 0.5) / config.samples for i in range(config.samples)]
        places = plain_quantiles(chunk[:, :dim], past, levels, config) if config.sticky else levels
        times += [tau * level for level in levels]
        signal += [plain_bumps(place, config) @ past for place in places]
    shape = np.array([plain_bumps(time, config) for time in times])
    penalty = math.sqrt(config.ridge) * np.eye(config.basis)
    target = np.concatenate([np.array(signal), np.zeros((config.basis, past.shape[1]))])
    return np.asarray(np.linalg.lstsq(np.concatenate([shape, penalty]), target)[0])


def plain_quantiles(keys: Floats, past: Floats, levels: list[float], config: InfiniteFormerConfig) -> list[float]:
    """Times that leave `levels` of the attention which `keys` pay to a past before them."""
    bells = (plain_bell(key, past, config) for key in keys)
    paid = sum(
        (plain_softmax([-0.5 * (time - mean) ** 2 / variance for time in levels]) for mean, variance in bells),
        np.zeros(config.samples),
    )
    places, before, part = [], 0.0, 0
    for level in levels:
        wanted = level * math.fsum(paid)
        while before + paid[part] < wanted:
            before += paid[part]
            part += 1
        places.append((part + (wanted - before) / paid[part]) / config.samples)
    return places


def plain_bell(query: Floats, state: Floats, config: InfiniteFormerConfig) -> tuple[float, float]:
    """Mean and variance of a mixture of the bumps, as densities, weighed by the softmax of products with their keys."""
    shares = plain_softmax([float(query @ row[: len(query)]) / config.temperature for row in state])
    middles = [(j + 0.5) / config.basis for j in range(config.basis)]
    mean = math.fsum(shares * middles)
    own = (config.spread / config.basis) ** 2
    return mean, math.fsum(share * ((middle - mean) ** 2 + own) for share, middle in zip(shares, middles, strict=True))


def plain_softmax(logits: list[float]) -> Floats:
    """Shares of some logits."""
    highest = max(logits)
    weights = np.array([math.exp(logit - highest) for logit in logits])
    return np.asarray(weights / math.fsum(weights))


def plain_heights(query: Floats, state: Floats, sampled: Floats, config: InfiniteFormerConfig) -> Floats:
    """Mean heights [basis] of the bumps under a query's density: the gaussian's in closed form.

    sampled: heights [samples, basis] at the points at which a softmax is taken
    """
    if config.density == "softmax":
        keys = [heights @ state[:, : len(query)] for heights in sampled]
        return np.asarray(plain_softmax([float(query @ key) / config.temperature for key in keys]) @ sampled)
    mean, variance = plain_bell(query, state, config)
    own = (config.spread / config.basis) ** 2
    middles = [(j + 0.5) / config.basis for j in range(config.basis)]
    bells = [math.exp(-0.5 * (mean - middle) ** 2 / (variance + own)) for middle in middles]
    return np.array(bells) * math.sqrt(own / (variance + own))
