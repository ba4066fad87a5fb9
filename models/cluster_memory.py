"""Memories that cluster, offline, all tokens so far: what k-means and DP-means over keys have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from models.config import SlotConfig
from models.kernel import kernel
from models.mechanism import TIE, Contents, SlotMemory, Trace
from models.reference import lowest
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream, unit

C = TypeVar("C", bound=SlotConfig)

BLOCK_ELEMENTS = 1 << 20


class Clusters(NamedTuple):
    """labels [N]: each token's cluster, numbered by their oldest members; centres [k, d]."""

    labels: Ints
    centres: Floats


class ClusterMemory(SlotMemory[C]):
    """Holds every token, and at a phase end answers from one slot a cluster of all tokens so far.

    A slot's key is the direction of its cluster's centre, its value that of most members (the lowest class on a tie),
    and it counts as holding the oldest member. The tokens stay, to be clustered anew: peak and mean size are theirs.
    """

    compares_tokens: ClassVar[bool] = False

    def capacity(self, config: C, length: int) -> int:
        """Slots are laid out anew at each phase end."""
        return 1

    @abstractmethod
    def cluster(self, keys: Floats, config: C) -> Clusters:
        """Clusters of the unit keys [N, d] of all tokens so far."""

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        """Keep tokens start..stop-1."""
        self.slots.counts[:] = self.slots.peak[:] = stop
        self.slots.held[:] += (stop - start) * (start + 1 + stop) // 2

    def settle(self, similarities: Similarities, stop: int) -> None:
        """Cluster the tokens before `stop`."""
        keys = similarities.keys[:stop]
        found = [self.cluster(keys, config) for config in self.configs]
        self.slots.counts[:] = [len(clusters.centres) for clusters in found]
        width = int(self.slots.counts.max())
        tokens, values = np.zeros((2, len(self), width), dtype=np.int64)
        directions = np.zeros((len(self), width, keys.shape[1]))
        for c, (labels, centres) in enumerate(found):
            count = len(centres)
            tokens[c, :count] = np.unique(labels, return_index=True)[1]
            values[c, :count] = most_frequent(labels, self.token_values[:stop], count, self.stream.classes)
            directions[c, :count] = unit(centres)
        self._contents = Contents(tokens, values, self.slots.counts, directions)

    def contents(self) -> Contents:
        """Clusters found at the last phase end."""
        return self._contents


def in_order(labels: Ints, centres: Floats) -> Clusters:
    """Clusters that have members, numbered by their oldest."""
    used, oldest = np.unique(labels, return_index=True)
    order = used[np.argsort(oldest)]
    number = np.empty(len(centres), dtype=np.int64)
    number[order] = np.arange(len(order))
    return Clusters(number[labels], centres[order])


def most_frequent(labels: Ints, values: Ints, count: int, classes: int) -> Ints:
    """Most frequent value [count] among each cluster's members, the lowest on a tie."""
    tally = np.bincount(labels * classes + values, minlength=count * classes).reshape(count, classes)
    frequent: Ints = tally.argmax(axis=1)
    return frequent


def means(keys: Floats, labels: Ints, centres: Floats) -> Floats:
    """Mean key of each cluster's members; a cluster without any keeps its centre."""
    sums, sizes = np.zeros_like(centres), np.zeros(len(centres), dtype=np.int64)
    add_up(keys, labels, sums, sizes)
    return np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)


@kernel
def add_up(keys: Floats, labels: Ints, sums: Floats, sizes: Ints) -> None:
    """Add each key to the sum of its cluster."""
    for t in range(len(keys)):
        sizes[labels[t]] += 1
        for k in range(keys.shape[1]):
            sums[labels[t], k] += keys[t, k]


def squared_lengths(keys: Floats) -> Floats:
    """Squared length of each key."""
    lengths: Floats = np.einsum("ij,ij->i", keys, keys)
    return lengths


def half_distances(products: Floats, own: Floats, offsets: Floats) -> Floats:
    """Half the squared distance [N, k] of each key to each centre; 0 where they coincide.

    products [N, k]: keys @ centres.T; own [N], offsets [k]: half the squared lengths of keys and centres.
    """
    halves = own[:, None] + offsets - products
    halves[halves < TIE] = 0.0
    return halves


def nearest_centres(keys: Floats, centres: Floats) -> tuple[Ints, Floats]:
    """Nearest centre of each key, the first on a tie, and half the squared distance to it; 0 where they coincide."""
    labels, halves = np.empty(len(keys), dtype=np.int64), np.empty(len(keys))
    own, offsets = 0.5 * squared_lengths(keys), 0.5 * squared_lengths(centres)
    step = max(1, BLOCK_ELEMENTS // len(centres))
    for start in range(0, len(keys), step):
        part = slice(start, start + step)
        pick(keys[part] @ centres.T, own[part], offsets, labels[part], halves[part])
    return labels, halves


@kernel
def pick(products: Floats, own: Floats, offsets: Floats, labels: Ints, halves: Floats) -> None:
    """Write the nearest centre of each key, and half the squared distance to it.

    products [b, k]: keys @ centres.T, written over; own [b], offsets [k]: half the squared lengths of keys and centres.
    """
    for t in range(len(products)):
        least = np.inf
        for n in range(len(offsets)):
            products[t, n] = own[t] + offsets[n] - products[t, n]
            least = min(least, products[t, n])
        labels[t] = 0
        while products[t, labels[t]] > least + TIE:
            labels[t] += 1
        halves[t] = 0.0 if least < TIE else least


def half_squares(key: Floats, centres: Floats) -> list[float]:
    """Half the squared distances of a key to centres, as a reference computes them; 0 where they coincide."""
    halves = [0.5 * float(((key - centre) ** 2).sum()) for centre in centres]
    return [0.0 if half < TIE else half for half in halves]


def record_clusters(trace: Trace, clusters: Clusters, stream: Stream) -> None:
    """Note clusters of all tokens so far at a phase end: oldest member, majority value, direction of the centre."""
    members = [np.flatnonzero(clusters.labels == n).tolist() for n in range(len(clusters.centres))]
    trace.tokens.append([tokens[0] for tokens in members])
    votes = [[stream.values[tokens].tolist().count(value) for value in range(stream.classes)] for tokens in members]
    trace.values.append([counts.index(max(counts)) for counts in votes])
    trace.keys = [*(trace.keys or []), unit(clusters.centres)]


def choose(distances: list[float], trace: Trace) -> int:
    """Nearest centre of a reference; the first on a tie."""
    return lowest(distances, trace, relative=False)
