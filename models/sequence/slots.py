"""Which token is kept in which of a few slots, and which slots a token reads (the slot memory of SparsePointer).

Choices have no gradient and depend on token embeddings alone. They are made in 64 bits, before anything is read, so
that the values that are read can be computed for all tokens at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from models.kernel import kernel
from models.sequence.recurrence.parallel import Array, array, over_lanes

if TYPE_CHECKING:
    from torch import Tensor

FAINTEST = 1e-4
"""Strengths below this count as this in scores (arXiv 2606.05175, released code)."""


TIE = 1e-9
"""Cosines this close to the limit are at it, whatever the rounding of their products: they do not merge."""


class Policy(NamedTuple):
    """Slots there are and are read, cosine above which a write merges, and strength up to which a slot is empty."""

    slots: int
    top_k: int
    merge_above: float
    empty_below: float


class Choices(NamedTuple):
    """What the writes and reads of N sequences of T tokens did; a *version* is what a slot held after a token's write.

    chain      [N, T]     the token that opened the slot which token t was written to
    stronger   [N, T]     the token among the version's whose own write was strongest
    before     [N, T]     the same of the version that t's write was merged with, or -1
    read       [N, T, K]  tokens whose versions t reads, best first, or -1
    """

    chain: Tensor
    stronger: Tensor
    before: Tensor
    read: Tensor


def choose(keys: Tensor, strengths: Tensor, policy: Policy, queries: Tensor | None = None) -> Choices:
    """Token t >= 1 reads with `queries` [N, T, d], and then writes under `keys` [N, T, d] with `strengths` [N, T].

    Without queries it reads with the key under which it writes.

    A read keeps the `top_k` best slots that are not empty, by cos / sqrt(d) + ln strength; of equal ones the one
    written last. A write merges into the slot with the highest cosine (of equal ones the first) if that is above
    `merge_above`, else opens the first empty slot, else the one not written for longest. With g the strength of the
    write and s that of the slot, merging moves the slot's key by g / (s + g) towards the new one, and s to max(s, g).
    """
    import torch

    lanes, tokens, _ = keys.shape
    kept = min(policy.top_k, policy.slots)
    chain, stronger, before = (torch.empty(lanes, tokens, dtype=torch.long) for _ in range(3))
    read = torch.empty(lanes, tokens, kept, dtype=torch.long)
    queries = keys[:, :0] if queries is None else queries
    arrays = [array(part.cpu().double()) for part in (keys, queries, strengths)]
    over_lanes(
        follow, lanes, *arrays, policy.slots, policy.merge_above, policy.empty_below,
        *map(array, (chain, stronger, before, read)),
    )  # fmt: skip
    return Choices(*(part.to(keys.device) for part in (chain, stronger, before, read)))


@kernel
def follow(
    first: int,
    stop: int,
    keys: Array,
    queries: Array,
    strengths: Array,
    slots: int,
    merge_above: float,
    empty_below: float,
    chain: Array,
    stronger: Array,
    before: Array,
    read: Array,
) -> None:
    """Write the choices of sequences first..stop-1; where there are no `queries`, keys ask."""
    tokens, width = keys.shape[1:]
    held = np.zeros((width, slots))  # so that the slots are what one instruction works on
    # One by one: rows that are unpacked from one array have no stride that the compiler knows.
    lengths, strength, scores = np.zeros(slots), np.zeros(slots), np.zeros(slots)
    for n in range(first, stop):
        strength[:] = -1.0
        version = np.full(slots, -1)
        chain[n, 0], stronger[n, 0], before[n, 0], read[n, 0] = 0, 0, -1, -1
        for t in range(1, tokens):
            key, g = keys[n, t], strengths[n, t]
            compare(key, held, lengths, strength, empty_below, scores)
            best = int(np.argmax(scores))
            merged = scores[best] > merge_above + TIE
            if queries.shape[1] > 0:
                compare(queries[n, t], held, lengths, strength, empty_below, scores)
            for m in range(slots):
                if strength[m] > empty_below:
                    scores[m] = scores[m] / np.sqrt(width) + np.log(max(strength[m], FAINTEST))
            pick(scores, version, read[n, t])
            if not merged:
                best = free(strength, version, empty_below)
            chain[n, t], stronger[n, t], before[n, t] = t, t, -1
            if merged:
                old = version[best]
                chain[n, t], before[n, t] = chain[n, old], stronger[n, old]
                rate = g / (strength[best] + g)
                for j in range(width):
                    held[j, best] += rate * (key[j] - held[j, best])
                if strength[best] > g:
                    stronger[n, t], g = stronger[n, old], strength[best]
            else:
                held[:, best] = key
            strength[best], version[best] = g, t
            lengths[best] = np.sqrt((held[:, best] * held[:, best]).sum())


@kernel
def compare(key: Array, held: Array, lengths: Array, strength: Array, empty_below: float, cosines: Array) -> None:
    """Write cosines [M] of `key` [d] with keys `held` [d, M]; empty slots get -inf, keys of no length a cosine of 0."""
    length = np.sqrt((key * key).sum())
    cosines[:] = 0.0
    for j in range(len(key)):
        for m in range(len(cosines)):
            cosines[m] += key[j] * held[j, m]
    for m in range(len(cosines)):
        cosines[m] = cosines[m] / (length * lengths[m]) if length * lengths[m] > 0.0 else 0.0
        if strength[m] <= empty_below:
            cosines[m] = -np.inf


@kernel
def pick(scores: Array, version: Array, read: Array) -> None:
    """Write versions of the slots with the highest `scores` [M] into `read` [K]; -1 where no more have one."""
    for place in range(len(read)):
        best = -1
        for m in range(len(scores)):
            if scores[m] > -np.inf and (
                best < 0 or scores[m] > scores[best] or (scores[m] == scores[best] and version[m] > version[best])
            ):
                best = m
        read[place] = -1
        if best >= 0:
            read[place] = version[best]
            scores[best] = -np.inf


@kernel
def free(strength: Array, version: Array, empty_below: float) -> int:
    """The first empty slot, or else the one not written for longest."""
    oldest = 0
    for m in range(len(strength)):
        if strength[m] <= empty_below:
            return m
        if version[m] < version[oldest]:
            oldest = m
    return oldest
