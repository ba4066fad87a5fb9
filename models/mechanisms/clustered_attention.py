"""Clustered attention: queries of a kind ask together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from models.attending import AttentionBlock, numerators
from models.cluster_memory import means
from models.config import MOST, SlotConfig
from models.fixed_state import NUMBER_BYTES
from models.mechanism import TIE, Trace, mechanism
from models.reference import highest, unit_keys
from models.selective_memory import (
    Mask,
    SelectiveMemory,
    foremost,
    keep_and_ask,
    reference_first,
    reference_foremost,
)
from models.similarity import QueryBlock, Similarities, softmax_numerators
from models.stream import Floats, Ints, Phase, Stream, unit


class ClusteredAttentionConfig(SlotConfig):
    """Clusters of queries attend to all keys by their centroids (clustered attention, arXiv 2007.04825, Sec. 3).

    Kept: the queries of a phase are hashed to the signs of random projections, clustered by Lloyd's algorithm in
    Hamming distance from the first of them on, and each attends with the mean of its cluster; with `recomputed` keys a
    query itself divides what its centroid gives to the centroid's top keys (improved clustered attention).
    Left out: projections have no random offset, as queries are unit, and a cluster without members stays as it is. What
    is clustered is queries, not keys (see `kmeans_keys`): it saves time where many ask at once, and never memory.
    """

    name: Literal["clustered_attention"] = "clustered_attention"
    clusters: int = Field(ge=1, le=MOST, description="clusters of the queries of a phase, at most one a query")
    bits: int = Field(32, ge=1, le=1024, description="random projections whose signs are a query's hash")
    iterations: int = Field(10, ge=0, le=1000, description="rounds of recentring the clusters, at most")
    recomputed: int = Field(
        0, ge=0, le=MOST, description="keys of a centroid that its queries weigh by themselves; 0 is none (plain)"
    )


class Clustered(NamedTuple):
    """labels [Q]: cluster of each query; centres [m, d]: mean query of each cluster, shorter than 1 if they differ."""

    labels: Ints
    centres: Floats


@mechanism(ClusteredAttentionConfig)
class ClusteredAttention(SelectiveMemory[ClusteredAttentionConfig]):
    """Append O(1), read O(Q C bits + C N d) for Q queries in C clusters, and O(r d) each for r recomputed keys.

    Size grows with the stream: every token, beside the projections. A query that is asked alone is its own cluster and
    reads all tokens in O(N d): so are reads timed. Where clusters tie the first is taken, where keys tie for the last
    place of those recomputed the oldest; a projection of 0 has the sign of negative ones, and so has half of a
    cluster's members.
    """

    seed_free: ClassVar[bool] = False
    batch_over: ClassVar[tuple[str, ...]] = ("clusters", "iterations", "recomputed")

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.planes = planes(self.config.bits, stream.dim, rng)
        self.clustered: dict[int, Clustered] = {}

    def settle(self, similarities: Similarities, stop: int) -> None:
        super().settle(similarities, stop)
        self.clustered = {}

    def bytes_fixed(self) -> int:
        """The projections."""
        return NUMBER_BYTES * self.planes.size

    def clusters(self, c: int, phase: Phase) -> Clustered:
        """The clusters of a phase's queries for config `c`, made once."""
        if c not in self.clustered:
            self.clustered[c] = cluster(unit(phase.queries), self.planes, self.configs[c])
        return self.clustered[c]

    def shares(self, c: int, block: QueryBlock, phase: Phase) -> Floats:
        config, reading = self.configs[c], self.config.reading
        labels, centres = self.clusters(c, phase)
        used, own = np.unique(labels[block.start : block.start + len(block)], return_inverse=True)
        cosines = centres[used] @ self.keys.T
        if config.recomputed == 0:
            shares: Floats = (cosines if reading == "argmax" else softmax_numerators(cosines, reading))[own]
            return shares
        top = foremost(cosines, config.recomputed)
        if reading == "argmax":
            return self.restricted(block, top[own])
        return corrected(softmax_numerators(cosines, reading), top, own, self.restricted(block, top[own]))

    def attends(self, c: int, block: AttentionBlock, phase: Phase) -> Floats:
        """As `shares`, by the logits of a cluster's mean query and, for the recomputed keys, of the query's own."""
        config, (labels, centres) = self.configs[c], self.clusters(c, phase)
        used, own = np.unique(labels[block.start : block.start + len(block)], return_inverse=True)
        raw = means(phase.queries, labels, np.zeros_like(centres))
        given = numerators(raw[used] @ block.raw_keys.T * block.scale)
        if config.recomputed == 0:
            return given[own]
        top = foremost(centres[used] @ self.keys.T, config.recomputed)
        return corrected(given, top, own, block.over(top[own]))

    @classmethod
    def reference(
        cls, stream: Stream, config: ClusteredAttentionConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        keys, trace, reading = unit_keys(stream, dtype), Trace(), config.reading
        projections = planes(config.bits, stream.dim, rng)

        def weights(cosines: Floats) -> Floats:
            if reading != "argmax":
                return softmax_numerators(cosines, reading)
            best: Floats = np.eye(len(cosines))[reference_first(cosines, trace)]
            return best

        def shares(phase: Phase) -> Iterator[Floats]:
            held, queries = keys[: phase.end], unit(phase.queries)
            labels = reference_cluster(queries, projections, config, trace)
            for query, label in zip(queries, labels, strict=True):
                centre = queries[[other == label for other in labels]].mean(axis=0)
                if config.recomputed == 0:
                    yield weights(held @ centre)
                    continue
                top = reference_foremost(held @ centre, config.recomputed, trace)
                row = np.zeros(len(held)) if reading == "argmax" else weights(held @ centre)
                own = weights(held[top] @ query)
                row[top] = own if reading == "argmax" else own * row[top].sum() / own.sum()
                yield row

        return keep_and_ask(stream, trace, shares)


def corrected(given: Floats, top: Mask, own: Ints, exact: Floats) -> Floats:
    """Shares [Q, n] of queries: those `given` [C, n] to their clusters `own` [Q], but `exact` [Q, n] for `top` [C, n].

    These keep the mass that their cluster gives them.
    """
    mass = (given * top).sum(axis=1, keepdims=True)
    exact = exact * (mass[own] / exact.sum(axis=1, keepdims=True))
    return np.where(top[own], exact, given[own])


def planes(bits: int, dim: int, rng: np.random.Generator) -> Floats:
    """Normals [bits, d] of random planes."""
    return np.random.default_rng(int(rng.integers(2**63))).standard_normal((bits, dim))


def cluster(queries: Floats, normals: Floats, config: ClusteredAttentionConfig) -> Clustered:
    """Cluster unit queries [Q, d] by the sides of planes with these `normals` [bits, d] on which they lie."""
    signs = np.where(queries @ normals.T > TIE, 1.0, -1.0)
    centroids = signs[: config.clusters].copy()
    labels = (signs @ centroids.T).argmax(axis=1)
    for _ in range(config.iterations):
        centroids, before = np.where(means(signs, labels, centroids) > 0.0, 1.0, -1.0), labels
        labels = (signs @ centroids.T).argmax(axis=1)
        if np.array_equal(labels, before):
            break
    return Clustered(labels, means(queries, labels, np.zeros((len(centroids), queries.shape[1]))))


def reference_cluster(queries: Floats, normals: Floats, config: ClusteredAttentionConfig, trace: Trace) -> list[int]:
    """The cluster of each query."""
    codes = []
    for query in queries:
        products = [float(query @ normal) for normal in normals]
        for product in products:
            trace.decide(product if abs(product) > TIE else 0.0)
        codes.append([product > TIE for product in products])
    centroids = codes[: config.clusters]
    labels: list[int] = []
    for _ in range(config.iterations + 1):
        if labels:
            centroids = [
                majority([code for code, label in zip(codes, labels, strict=True) if label == n], centroid)
                for n, centroid in enumerate(centroids)
            ]
        labels = [
            highest(
                [sum(a == b for a, b in zip(code, centroid, strict=True)) for centroid in centroids],
                trace,
                relative=False,
            )
            for code in codes
        ]
    return labels


def majority(codes: list[list[bool]], otherwise: list[bool]) -> list[bool]:
    """Each bit that more than half of `codes` have; what is there `otherwise` if there are none."""
    return [2 * sum(bits) > len(bits) for bits in zip(*codes, strict=True)] if codes else otherwise
