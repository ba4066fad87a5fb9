"""Routing attention: a query reads the tokens nearest to its centroid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.config import MOST, SlotConfig
from models.kernel import kernel
from models.mechanism import TIE, Trace, mechanism
from models.reference import arrivals, unit_keys
from models.selective_memory import (
    SelectiveMemory,
    first_largest,
    foremost,
    keep_and_ask,
    reference_first,
    reference_foremost,
    reference_shares,
)
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream, unit

NUMBER_BYTES = 4
"""A centroid's number and a member's place take 32 bits each."""

PRODUCTS = 1 << 20
"""Products of centroids and tokens at once: 8 MiB."""


class RoutingAttentionConfig(SlotConfig):
    """Attention within clusters of tokens about centroids that follow them (Routing Transformer, arXiv 2003.05997).

    Kept: centroids on the unit sphere, moved towards their keys by an exponential average, clusters of equal size, each
    of the tokens nearest to its centroid, and a query that attends within the cluster of the centroid nearest to it.
    Left out: queries are not averaged, as there are none when tokens are written; centroids start at random directions
    and have one stream to learn in, token by token, where the original has a whole training.
    """

    name: Literal["routing_attention"] = "routing_attention"
    clusters: int = Field(16, ge=1, le=1 << 16, description="centroids")
    window: int = Field(32, ge=1, le=MOST, description="tokens in each cluster, the nearest; all if there are fewer")
    decay: float = Field(
        0.999, ge=0.0, le=1.0, description="share of a centroid that stays when a token is averaged in, per token"
    )


@mechanism(RoutingAttentionConfig)
class RoutingAttention(SelectiveMemory[RoutingAttentionConfig]):
    """Write O(k d), gather O(N k d) at a phase end, read O((k + w) d), by k centroids of w tokens each.

    Size grows with the stream: all tokens, for clusters may change; centroids and their members. Of centroids that tie
    the first is taken, of tokens that tie for the last place of a cluster the oldest.
    """

    seed_free: ClassVar[bool] = False
    batch_over: ClassVar[tuple[str, ...]] = ("decay",)

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.centroids = np.repeat(directions(self.config, stream.dim, rng)[None], len(self), axis=0)

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        super().write(similarities, start, stop)
        for config, centroids in zip(self.configs, self.centroids, strict=True):
            follow(similarities.keys[start:stop], centroids, config.decay)

    def settle(self, similarities: Similarities, stop: int) -> None:
        super().settle(similarities, stop)
        self.members = [members(centroids, self.keys, self.config.window) for centroids in self.centroids]

    def shares(self, c: int, block: QueryBlock, phase: Phase) -> Floats:
        visible = np.zeros(block.cosines.shape, dtype=np.bool_)
        for row, nearest in zip(visible, first_largest(block.queries @ self.centroids[c].T).tolist(), strict=True):
            row[self.members[c][nearest]] = True
        return self.restricted(block, visible)

    def bytes_fixed(self) -> int:
        """The centroids, and room for their members."""
        places = self.config.clusters * min(self.config.window, len(self.stream))
        return NUMBER_BYTES * (int(self.centroids[0].size) + places)

    def reader(self) -> Callable[[Floats], int]:
        """The nearest centroid, and a vote of its members."""
        read_tokens, centroids, tokens = self.token_reader(), self.centroids[0].copy(), self.members[0]

        def read(query: Floats) -> int:
            return read_tokens(query, tokens[int(first_largest(centroids @ query))])

        return read

    @classmethod
    def reference(
        cls, stream: Stream, config: RoutingAttentionConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        keys, trace = unit_keys(stream, dtype), Trace()
        centroids = directions(config, stream.dim, rng)
        at_phase_end = {}
        for t, phase_ends in arrivals(stream):
            nearest = reference_first(centroids @ keys[t], trace)
            moved = config.decay * centroids[nearest] + (1.0 - config.decay) * keys[t]
            length = np.linalg.norm(moved)
            centroids[nearest] = moved / length if length > TIE else 0.0
            if phase_ends:
                at_phase_end[t + 1] = centroids.copy()

        def shares(phase: Phase) -> Iterator[Floats]:
            held, centres = keys[: phase.end], at_phase_end[phase.end]
            near = [reference_foremost(held @ centre, config.window, trace) for centre in centres]
            for query in unit(phase.queries):
                read = near[reference_first(centres @ query, trace)]
                yield reference_shares(held @ query, read, config.reading, trace)

        return keep_and_ask(stream, trace, shares)


def members(centroids: Floats, keys: Floats, window: int) -> list[Ints]:
    """The tokens of each of `centroids` [k, d]: those `window` of `keys` [n, d] nearest to it, rising.

    Some centroids at a time, so that products of all with all tokens are never held at once.
    """
    step = max(1, PRODUCTS // len(keys))
    return [
        np.flatnonzero(near)
        for start in range(0, len(centroids), step)
        for near in foremost(centroids[start : start + step] @ keys.T, window)
    ]


def directions(config: RoutingAttentionConfig, dim: int, rng: np.random.Generator) -> Floats:
    """Random unit centroids [clusters, d]."""
    return unit(rng.standard_normal((config.clusters, dim)))


@kernel
def follow(keys: Floats, centroids: Floats, decay: float) -> None:
    """Move the centroid nearest to each key towards it, one key after another, and back onto the unit sphere.

    keys [b, d], centroids [k, d]; of centroids within TIE the first moves; one that a key cancels is 0 from then on.
    """
    products = np.empty(len(centroids))
    for t in range(len(keys)):
        for n in range(len(centroids)):
            products[n] = 0.0
            for i in range(keys.shape[1]):
                products[n] += centroids[n, i] * keys[t, i]
        border = products.max() - TIE
        nearest = 0
        while products[nearest] < border:
            nearest += 1
        squares = 0.0
        for i in range(keys.shape[1]):
            centroids[nearest, i] = decay * centroids[nearest, i] + (1.0 - decay) * keys[t, i]
            squares += centroids[nearest, i] ** 2
        length = np.sqrt(squares)
        for i in range(keys.shape[1]):
            centroids[nearest, i] = centroids[nearest, i] / length if length > TIE else 0.0
