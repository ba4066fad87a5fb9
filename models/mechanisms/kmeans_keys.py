"""k-means over keys: clustered attention as arXiv 2607.09889 stands it in."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.cluster_memory import (
    ClusterMemory,
    Clusters,
    choose,
    half_distances,
    half_squares,
    in_order,
    means,
    nearest_centres,
    record_clusters,
    squared_lengths,
)
from models.config import MOST, SlotConfig
from models.mechanism import TIE, Trace, mechanism
from models.reference import arrivals, unit_keys
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream


class KMeansKeysConfig(SlotConfig):
    """Centroids of all keys by Lloyd's algorithm, offline (arXiv 2607.09889, Sec. 3.1.8; Lloyd, IEEE TIT 28(2), 1982).

    The paper calls it clustered attention; that method (arXiv 2007.04825) clusters queries, not keys.
    """

    name: Literal["kmeans_keys"] = "kmeans_keys"
    clusters: int = Field(ge=1, le=MOST, description="centroids M")
    init: Literal["random", "kmeans++"] = Field(
        "random",
        description="first centroids: tokens drawn uniformly, or each the best of 2 + ln(clusters) tokens drawn in "
        "proportion to their squared distance from the centroids before (Arthur and Vassilvitskii, SODA 2007)",
    )
    restarts: int = Field(
        1, ge=1, le=1000, description="runs from fresh draws; the one of least squared distance stays"
    )
    iterations: int = Field(100, ge=0, le=1000, description="rounds of assigning and recentring, at most")


@mechanism(KMeansKeysConfig)
class KMeansKeys(ClusterMemory[KMeansKeysConfig]):
    """Offline: clusters all tokens so far at each phase end, O(N M d) a round, and holds them all in between.

    A tie goes to the first centroid. A centroid without members stays where it is, and if it never has any it is no
    slot: with fewer distinct keys than `clusters` there are as many slots as keys, or fewer.
    """

    seed_free: ClassVar[bool] = False
    batch_over: ClassVar[tuple[str, ...]] = ("clusters", "init", "restarts", "iterations")

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.entropy = int(rng.integers(2**63))

    def settle(self, similarities: Similarities, stop: int) -> None:
        self.phase_end = stop
        super().settle(similarities, stop)

    def cluster(self, keys: Floats, config: KMeansKeysConfig) -> Clusters:
        draws = np.random.default_rng([self.entropy, self.phase_end])
        runs = [lloyd(keys, seeds(keys, config, draws), config.iterations) for _ in range(config.restarts)]
        return runs[first_least(np.array([inertia for _, inertia in runs]))][0]

    @classmethod
    def reference(
        cls, stream: Stream, config: KMeansKeysConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        keys = unit_keys(stream, dtype)
        entropy = int(rng.integers(2**63))
        trace = Trace(keys=[])
        for t, phase_ends in arrivals(stream):
            trace.count(t + 1)
            if phase_ends:
                draws = np.random.default_rng([entropy, t + 1])
                seen = keys[: t + 1]
                runs = [reference_lloyd(seen, config, draws, trace) for _ in range(config.restarts)]
                sums = [inertia for _, inertia in runs]
                record_clusters(trace, runs[choose(sums, trace)][0], stream)
        return trace


def seeds(keys: Floats, config: KMeansKeysConfig, draws: np.random.Generator) -> Ints:
    """Tokens whose keys are the first centroids: at most as many as there are tokens."""
    count = min(config.clusters, len(keys))
    if config.init == "random":
        return draws.permutation(len(keys))[:count]
    uniform = draws.random((count, candidates(config)))
    chosen = [int(uniform[0, 0] * len(keys))]
    own = 0.5 * squared_lengths(keys)
    halves = half_distances(keys @ keys[chosen].T, own, own[chosen])[:, 0]
    for row in uniform[1:]:
        total = np.cumsum(halves)
        if total[-1] == 0.0:
            break  # every key is a centroid's
        drawn = np.searchsorted(total[:-1], row * total[-1], side="right")
        left = half_distances(keys @ keys[drawn].T, own, own[drawn])
        np.minimum(left, halves[:, None], out=left)
        best = first_least(left.sum(axis=0))
        chosen.append(int(drawn[best]))
        halves = left[:, best]
    return np.array(chosen)


def candidates(config: KMeansKeysConfig) -> int:
    """Draws of which each centroid of k-means++ is the best."""
    return 2 + int(math.log(config.clusters))


def first_least(sums: Floats) -> int:
    """Index of the least sum of squared distances, the first on a tie."""
    return int((sums <= sums.min() + TIE).argmax())


def lloyd(keys: Floats, chosen: Ints, iterations: int) -> tuple[Clusters, float]:
    """Clusters of keys [N, d] from first centroids `chosen`, and half the sum of squared distances."""
    centres = keys[chosen]
    labels, halves = nearest_centres(keys, centres)
    for _ in range(iterations):
        centres, before = means(keys, labels, centres), labels
        labels, halves = nearest_centres(keys, centres)
        if np.array_equal(labels, before):
            break
    return in_order(labels, centres), float(halves.sum())


def reference_lloyd(
    keys: Floats, config: KMeansKeysConfig, draws: np.random.Generator, trace: Trace
) -> tuple[Clusters, float]:
    """One run of a reference."""
    count = min(config.clusters, len(keys))
    if config.init == "random":
        chosen = draws.permutation(len(keys))[:count].tolist()
    else:
        chosen = reference_seeds(keys, draws.random((count, candidates(config))).tolist(), trace)
    centres = keys[chosen]
    labels = [choose(half_squares(key, centres), trace) for key in keys]
    for _ in range(config.iterations):
        members = [keys[np.array(labels) == n] for n in range(len(centres))]
        centres = np.array([own.mean(axis=0) if len(own) else old for own, old in zip(members, centres, strict=True)])
        before, labels = labels, [choose(half_squares(key, centres), trace) for key in keys]
        if labels == before:
            break
    return in_order(np.array(labels), centres), sum(min(half_squares(key, centres)) for key in keys)


def reference_seeds(keys: Floats, uniform: list[list[float]], trace: Trace) -> list[int]:
    """k-means++ as it reads: of some draws, in proportion to the squared distance from the seeds so far, the best."""
    chosen = [int(uniform[0][0] * len(keys))]
    for row in uniform[1:]:
        halves = [min(half_squares(key, keys[chosen])) for key in keys]
        if sum(halves) == 0.0:
            break
        drawn = [draw(halves, u * sum(halves), trace) for u in row]
        left = [sum(min(half_squares(key, keys[[*chosen, token]])) for key in keys) for token in drawn]
        chosen.append(drawn[choose(left, trace)])
    return chosen


def draw(weights: list[float], point: float, trace: Trace) -> int:
    """Index at which the running sum of `weights` passes `point`."""
    for index, weight in enumerate(weights):
        if point < weight:
            trace.decide(min(weight - point, point or 1.0))
            return index
        point -= weight
    raise ValueError("the point lies beyond the sum of the weights")
