"""Associative reads for CPUs: what is multiplied and compared are distinct keys, of which there are few.

Imported when first used: it needs torch. Entries with one key are a group with one score, whatever the rounding of the
product; a query finds its best groups and reads their entries from the most recent one back. Entries that differ in
strength are groups of their own.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.kernel import kernel
from models.sequence.recurrence.associative_read import AGE, BLOCK, SHORTEST
from models.sequence.recurrence.compiled import dot, recording
from models.sequence.recurrence.parallel import Array, array, over_lanes

FNV_PRIME = 1099511628211
"""Of the 64-bit hash of Fowler, Noll and Vo (RFC 9923)."""


class Chosen(NamedTuple):
    """Entries [N, P, K] that are read, -1 where there is none, and their weights [N, P, K]."""

    entries: Tensor
    weights: Tensor


def associative_read(
    q: Tensor, k: Tensor, v: Tensor, top_k: int, log_strength: Tensor | None, positions: Tensor, sharpness: float
) -> Tensor:
    """`models.sequence.recurrence.associative_read`, compiled."""
    if recording(q, k, v, log_strength):
        read: Tensor = AssociativeRead.apply(  # type: ignore[no-untyped-call]
            q, k, v, top_k, log_strength, positions, sharpness
        )
        return read
    return run_forward(q, k, v, top_k, log_strength, positions, sharpness)[0]


class AssociativeRead(torch.autograd.Function):
    """Both passes; gradients pass through the entries that were kept."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        top_k: int,
        log_strength: Tensor | None,
        positions: Tensor,
        sharpness: float,
    ) -> Tensor:
        read, chosen = run_forward(q, k, v, top_k, log_strength, positions, sharpness)
        ctx.save_for_backward(q, k, v, *chosen)
        ctx.sharpness = sharpness
        return read

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_read: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, entries, weights = ctx.saved_tensors
        d_q, d_k, d_v = (torch.zeros_like(part, memory_format=torch.contiguous_format) for part in (q, k, v))
        d_log_strength = q.new_zeros(k.shape[:2])
        parts = (q, k, v, entries, weights, d_read, d_q, d_k, d_v, d_log_strength)
        over_lanes(backward, len(q), *map(array, parts), ctx.sharpness)
        return d_q, d_k, d_v, None, d_log_strength if ctx.needs_input_grad[4] else None, None, None


def run_forward(
    q: Tensor, k: Tensor, v: Tensor, top_k: int, log_strength: Tensor | None, positions: Tensor, sharpness: float
) -> tuple[Tensor, Chosen]:
    """What is read [N, P, d], and from where."""
    lanes, tokens = k.shape[:2]
    with torch.no_grad():
        keys = array(k)
        groups = np.empty((lanes, tokens), dtype=np.int64)
        units = torch.zeros_like(k, memory_format=torch.contiguous_format)
        bits = keys.view(np.int64 if keys.itemsize == 8 else np.int32)
        over_lanes(group, lanes, keys, bits, groups, array(units))
        entries = torch.full((lanes, q.shape[1], min(top_k, tokens)), -1)
        weights = torch.zeros(entries.shape, dtype=q.dtype)
        read = q.new_zeros(*q.shape[:2], v.shape[2])
        strengths = array(q.new_zeros(lanes, 0) if log_strength is None else log_strength)
        for start in range(0, len(positions), BLOCK):
            some = slice(start, start + BLOCK)
            where = array(positions[some])
            readable = max(0, int(where.max()) - AGE + 1)
            if readable == 0:
                continue
            products = q[:, some] @ units[:, : int(groups[:, :readable].max()) + 1].mT
            over_lanes(
                choose, lanes, array(q[:, some]), array(products), groups, strengths, where, array(v),
                array(entries)[:, some], array(weights)[:, some], array(read)[:, some], sharpness,
            )  # fmt: skip
    return read, Chosen(entries, weights)


@kernel
def inverse_length(row: Array) -> float:
    """1 / length of `row` [a], 0 if it is too short."""
    length = math.sqrt(dot(row, row))
    return 1.0 / length if length > SHORTEST else 0.0


@kernel
def group(first: int, stop: int, k: Array, bits: Array, groups: Array, units: Array) -> None:
    """Number the distinct keys of each lane by first occurrence: write `groups` [N, T] and `units` [N, T, a].

    `bits` [N, T, a] are those of the keys as integers. A hash finds where to look; what counts is that keys are equal.
    """
    tokens, width = k.shape[1:]
    mask = 1
    while mask < 2 * tokens:
        mask *= 2
    mask -= 1
    table = np.empty(mask + 1, dtype=np.int64)
    for n in range(first, stop):
        table[:] = -1
        distinct = 0
        for t in range(tokens):
            code = 0
            for i in range(width):
                code = (code ^ (bits[n, t, i] if k[n, t, i] != 0 else 0)) * FNV_PRIME
            place = (code ^ (code >> 32)) & mask
            while table[place] >= 0 and not same(k[n, table[place]], k[n, t]):
                place = (place + 1) & mask
            if table[place] < 0:
                table[place] = t
                groups[n, t] = distinct
                scale = inverse_length(k[n, t])
                for i in range(width):
                    units[n, distinct, i] = k[n, t, i] * scale
                distinct += 1
            else:
                groups[n, t] = groups[n, table[place]]


@kernel
def same(one: Array, other: Array) -> bool:
    """Whether two keys [a] are equal."""
    equal = True
    for i in range(len(one)):
        equal = equal and one[i] == other[i]
    return equal


@kernel
def choose(
    first: int,
    stop: int,
    q: Array,
    products: Array,
    groups: Array,
    log_strength: Array,
    positions: Array,
    v: Array,
    entries: Array,
    weights: Array,
    read: Array,
    sharpness: float,
) -> None:
    """Write which entries [N, P, K] queries `q` [N, P, a] read, with what `weights`, and what they `read` [N, P, d].

    `products` [N, P, U]: of queries and the distinct unit keys. `log_strength` is [N, T] or [N, 0].
    """
    tokens, most = groups.shape[1], entries.shape[2]
    weighted = log_strength.shape[1] > 0
    # One by one: rows that are unpacked from one array have no stride that the compiler knows.
    latest, earlier = np.empty(tokens, np.int64), np.empty(tokens, np.int64)  # of a group, and of an entry's before it
    found = np.empty(most, dtype=np.int64)
    scores, best = np.empty(max(tokens, most)), np.empty(max(tokens, most))
    for n in range(first, stop):
        stored = known = 0
        for p in range(q.shape[1]):
            readable = positions[p] - AGE + 1
            if readable < stored:
                stored = known = 0
            for entry in range(max(stored, 0), readable):
                place = entry if weighted else groups[n, entry]
                earlier[entry] = latest[place] if place < known else -1
                latest[place] = entry
                known = max(known, place + 1)
            stored = max(stored, readable)
            factor = inverse_length(q[n, p]) / math.sqrt(q.shape[2])
            for place in range(known):
                scores[place] = products[n, p, groups[n, place] if weighted else place] * factor
                if weighted:
                    scores[place] += log_strength[n, place]
            kept = best_groups(scores[:known], latest, found)
            kept = unroll(scores, latest, earlier, found[:kept], entries[n, p], best)
            soften(best[:kept], weights[n, p], sharpness)
            for c in range(kept):
                weight, entry = weights[n, p, c], entries[n, p, c]
                for j in range(v.shape[2]):
                    read[n, p, j] += weight * v[n, entry, j]


@kernel
def best_groups(scores: Array, latest: Array, found: Array) -> int:
    """List in `found` [K] the groups with the highest `scores`, of equal ones the latest; returns how many they are."""
    kept = 0
    for place in range(len(scores)):
        score = scores[place]
        if kept == len(found):
            last = found[kept - 1]
            if score < scores[last] or (score == scores[last] and latest[place] < latest[last]):
                continue
        c = min(kept, len(found) - 1)
        while c > 0 and (
            score > scores[found[c - 1]] or (score == scores[found[c - 1]] and latest[place] > latest[found[c - 1]])
        ):
            found[c] = found[c - 1]
            c -= 1
        found[c] = place
        kept = min(kept + 1, len(found))
    return kept


@kernel
def unroll(scores: Array, latest: Array, earlier: Array, found: Array, entries: Array, best: Array) -> int:
    """Write the latest `entries` [K] of groups `found`, best first, and their scores `best`; returns how many they are.

    Groups with equal scores are read as one, by the age of their entries.
    """
    kept = begin = 0
    at = latest[found]
    while begin < len(found) and kept < len(entries):
        end = begin + 1
        while end < len(found) and scores[found[end]] == scores[found[begin]]:
            end += 1
        while kept < len(entries):
            newest = begin
            for c in range(begin + 1, end):
                newest = c if at[c] > at[newest] else newest
            if at[newest] < 0:
                break
            entries[kept], best[kept] = at[newest], scores[found[newest]]
            at[newest] = earlier[at[newest]]
            kept += 1
        begin = end
    return kept


@kernel
def soften(scores: Array, weights: Array, sharpness: float) -> None:
    """Write the sharpened softmax of `scores` [c], which descend, into `weights` [K]."""
    norm = 0.0
    for c in range(len(scores)):
        weights[c] = math.exp(sharpness * (scores[c] - scores[0]))
        norm += weights[c]
    for c in range(len(scores)):
        weights[c] /= norm


@kernel
def backward(
    first: int,
    stop: int,
    q: Array,
    k: Array,
    v: Array,
    entries: Array,
    weights: Array,
    d_read: Array,
    d_q: Array,
    d_k: Array,
    d_v: Array,
    d_log_strength: Array,
    sharpness: float,
) -> None:
    """Add the gradients to `d_q` [N, P, a], `d_k` [N, T, a], `d_v` [N, T, d] and `d_log_strength` [N, T]."""
    tokens, width = k.shape[1:]
    d_scores = np.empty(entries.shape[2], dtype=q.dtype)
    scales = np.empty(tokens, dtype=q.dtype)
    for n in range(first, stop):
        for t in range(tokens):
            scales[t] = inverse_length(k[n, t])
        for p in range(q.shape[1]):
            kept = 0
            while kept < len(d_scores) and entries[n, p, kept] >= 0:
                kept += 1
            through_weights(d_read[n, p], v[n], entries[n, p, :kept], weights[n, p], d_v[n], d_scores, sharpness)
            scale = inverse_length(q[n, p])
            for c in range(kept):
                entry = entries[n, p, c]
                d_log_strength[n, entry] += d_scores[c]
                d_scores[c] /= math.sqrt(width)
                to_query = d_scores[c] * scales[entry]
                for i in range(width):
                    d_q[n, p, i] += to_query * k[n, entry, i]
                d_scores[c] *= scale
                to_key = d_scores[c]
                for i in range(width):
                    d_k[n, entry, i] += to_key * q[n, p, i]
            along(q[n, p], scale, d_q[n, p])
        for t in range(tokens):
            along(k[n, t], scales[t], d_k[n, t])


@kernel
def through_weights(
    d_read: Array, v: Array, entries: Array, weights: Array, d_v: Array, d_scores: Array, sharpness: float
) -> None:
    """Write gradients of the scores of one query's `entries` [c], and add those of the values they hold."""
    mean = 0.0
    for c in range(len(entries)):
        entry, weight = entries[c], weights[c]
        d_scores[c] = dot(d_read, v[entry])
        mean += weight * d_scores[c]
        for j in range(len(d_read)):
            d_v[entry, j] += weight * d_read[j]
    for c in range(len(entries)):
        d_scores[c] = sharpness * weights[c] * (d_scores[c] - mean)


@kernel
def along(vector: Array, scale: float, gradient: Array) -> None:
    """Turn the `gradient` [a] of a unit vector, in place, into that of the `vector` it was scaled from."""
    part = dot(gradient, vector) * scale * scale
    for i in range(len(vector)):
        gradient[i] = (gradient[i] - part * vector[i]) * scale
