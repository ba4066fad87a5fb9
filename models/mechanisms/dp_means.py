"""DP-means: the batch form of the Dirichlet-process cache."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.allocation_memory import NoveltyConfig
from models.blocked import build_slots
from models.cluster_memory import (
    ClusterMemory,
    Clusters,
    choose,
    half_squares,
    in_order,
    means,
    nearest_centres,
    record_clusters,
)
from models.kernel import kernel
from models.mechanism import NEAR_ONE, TIE, Trace, mechanism
from models.reference import arrivals, cosine, unit_keys
from models.stream import Floats, Ints, Stream


class DPMeansConfig(NoveltyConfig):
    """DP-means over unit keys, lambda = 2 tau: as many clusters as the data need (arXiv 1111.0352, Algorithm 1)."""

    name: Literal["dp_means"] = "dp_means"
    iterations: int = Field(
        50, ge=0, le=1000, description="rounds of assigning and recentring, at most; 0 assigns once and never recentres"
    )


@mechanism(DPMeansConfig)
class DPMeans(ClusterMemory[DPMeansConfig]):
    """Offline: clusters all tokens so far at each phase end, O(N m d) a round, and holds them all in between.

    A token further than lambda, in squared distance, from every centre opens a cluster at its own key; a round ends
    with each centre at the mean of its members. It starts from no cluster, not from the mean of all keys as published,
    so that one pass without recentring is the leader algorithm (Hartigan 1975), which is `dp_cache`. No round
    increases sum ||x - mu||^2 + lambda k.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("tau", "similarity", "iterations")

    def cluster(self, keys: Floats, config: DPMeansConfig) -> Clusters:
        built = build_slots(keys, config.tau)
        clusters = Clusters(built.assignment, keys[built.slots])
        for round_ in range(config.iterations):
            if round_ > 0:
                before, clusters = clusters, assign(keys, clusters.centres, config.tau)
                if np.array_equal(clusters.labels, before.labels):
                    break
            clusters = clusters._replace(centres=means(keys, *clusters))
        return clusters

    @classmethod
    def reference(
        cls, stream: Stream, config: DPMeansConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        keys = unit_keys(stream, dtype)
        trace = Trace(keys=[])
        for t, phase_ends in arrivals(stream):
            trace.count(t + 1)
            if phase_ends:
                seen = keys[: t + 1]
                clusters = leaders(seen, config.tau, trace)
                for round_ in range(config.iterations):
                    if round_ > 0:
                        before, clusters = clusters, reassigned(seen, clusters.centres, config.tau, trace)
                        if clusters.labels.tolist() == before.labels.tolist():
                            break
                    members = [seen[clusters.labels == n] for n in range(len(clusters.centres))]
                    clusters = Clusters(clusters.labels, np.array([own.mean(axis=0) for own in members]))
                record_clusters(trace, clusters, stream)
        return trace


def leaders(keys: Floats, tau: float, trace: Trace) -> Clusters:
    """The first pass of a reference: no centre moves."""
    opened: list[int] = []
    labels: list[int] = []
    for t, key in enumerate(keys):
        cosines = [cosine(key, keys[token]) for token in opened]
        novelties = [0.0 if similarity > NEAR_ONE else 1.0 - similarity for similarity in cosines]
        novelty = min(novelties, default=math.inf)
        trace.decide(novelty - tau)
        if novelty > tau:
            opened.append(t)
            labels.append(len(opened) - 1)
        else:
            labels.append(choose(novelties, trace))
    return Clusters(np.array(labels), keys[opened])


def reassigned(keys: Floats, centres: Floats, tau: float, trace: Trace) -> Clusters:
    """A later pass of a reference."""
    every = list(centres)
    labels: list[int] = []
    for key in keys:
        distances = half_squares(key, np.array(every))
        trace.decide(min(distances) - tau)
        if min(distances) > tau:
            every.append(key)
            labels.append(len(every) - 1)
        else:
            labels.append(choose(distances, trace))
    return in_order(np.array(labels), np.array(every))


def assign(keys: Floats, centres: Floats, tau: float) -> Clusters:
    """One pass over keys [N, d]: each to its nearest centre within half a squared distance `tau`, or to a new one."""
    labels, halves = nearest_centres(keys, centres)
    opened = np.empty(len(keys), dtype=np.int64)
    count = open_clusters(keys, halves, tau, len(centres), labels, opened)
    return in_order(labels, np.concatenate([centres, keys[opened[:count]]]))


@kernel
def open_clusters(keys: Floats, halves: Floats, tau: float, old: int, labels: Ints, opened: Ints) -> int:
    """Open clusters, numbered from `old` on, for keys further from their centres than `tau`; returns how many.

    halves [N]: half the squared distance to the nearest old centre, in `labels`. Later keys may join the new clusters.
    opened [N] lists the tokens whose keys are the new centres.
    """
    count = 0
    for t in range(len(keys)):
        best = halves[t]
        for n in range(count):
            half = 0.0
            for k in range(keys.shape[1]):
                half += (keys[t, k] - keys[opened[n], k]) ** 2
            half = 0.0 if 0.5 * half < TIE else 0.5 * half
            if half < best - TIE:
                best, labels[t] = half, old + n
        if best > tau:
            opened[count], labels[t] = t, old + count
            count += 1
    return count
