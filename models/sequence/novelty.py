"""Which entries of a memory open a slot, and which slots a token reads: allocation by novelty (arXiv 2607.09889).

Choices have no gradient. They are made one entry after another in 64 bits, before anything is read, so that what is
read can be computed for all tokens at once. Whole sequences and single steps go through the same kernels. They run on
the CPU: from other devices keys and queries are copied there at each pass, and choices back.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from models.kernel import kernel
from models.sequence.recurrence.associative_read import SHORTEST
from models.sequence.recurrence.parallel import Array, array, over_lanes

if TYPE_CHECKING:
    from torch import Tensor

TIE = 1e-9
"""Cosines and novelties this close are equal, whatever the rounding of their products."""

NEW = -1
"""Where a slot comes from that an entry opens."""


class Rule(NamedTuple):
    """How many slots there may be: floor(m0 + beta T), at least 1 and at most `slots`.

    T = (1 - eta) T + eta [novel] follows how often entries are novel; with beta = 0 the cap is fixed. The usage of a
    slot is 1 when it is opened, grows by 1 with each entry that it takes, and shrinks by `decay` with each of any.
    first: a slot is read as the entry that opened it was, else as its last entry
    """

    slots: int
    decay: float
    eta: float
    beta: float
    m0: float
    first: bool = False


class Choices(NamedTuple):
    """What entries and reads of N sequences of T tokens did.

    novel  [N, T]     whether entry i opened a slot
    near   [N, T]     the entry that opened the slot nearest to i, which takes i if it is not novel; i where none was
    read   [N, T, K]  the last entries of the slots that token t reads (by the rule, the first), best first, or -1
    """

    novel: Tensor
    near: Tensor
    read: Tensor

    def opener(self) -> Tensor:
        """The entry [N, T] that opened the slot which took each: itself if it is novel."""
        import torch

        places = torch.arange(self.novel.shape[1], device=self.novel.device)
        return torch.where(self.novel, places, self.near)


def choose(
    keys: Tensor,
    queries: Tensor,
    tau: Tensor,
    rule: Rule,
    top_k: int,
    log_strength: Tensor | None = None,
    at: Tensor | None = None,
) -> Choices:
    """Token t reads with `queries` [N, T, a]; then entry t - 1 comes, whose key is that of `keys` [N, T, a].

    An entry is novel if 1 - cos with the key of every slot is above `tau` [N] (Eq. 2): it opens a slot under its key.
    Else the slot with the highest cosine takes it, of equal ones the oldest, whose key stays. While there are more
    slots than `rule` allows the least used leaves, of equal ones the oldest; the new one competes with usage 1. A read
    keeps the `top_k` slots with the highest cos / sqrt(a) + `log_strength` [N, T] of their last entries (by the rule,
    of their first), of equal ones the newest; only tokens `at` [P] read (None: all).
    """
    import torch

    lanes, tokens, _ = keys.shape
    asked = torch.full((tokens,), at is None)
    if at is not None:
        asked[at.cpu()] = True
    novel = torch.zeros(lanes, tokens, dtype=torch.bool)
    near = torch.arange(tokens).expand(lanes, -1).contiguous()
    read = torch.full((lanes, tokens, min(top_k, rule.slots)), -1)
    given = (keys, queries, tau, keys.new_zeros(lanes, tokens) if log_strength is None else log_strength)
    arrays = [array(part.detach().cpu().double()) for part in given]
    over_lanes(follow, lanes, *arrays, array(asked), rule, *map(array, (novel, near, read)))
    return Choices(*(part.to(keys.device) for part in (novel, near, read)))


def running_means(values: Tensor, opener: Tensor) -> Tensor:
    """For each entry of `values` [N, T, d] the mean of it and of those before it with the same `opener` [N, T].

    Sums of 1, 2, 4, ... neighbours, once entries with one opener stand side by side (Hillis and Steele 1986).
    """
    import torch

    openers, order = opener.sort(dim=1, stable=True)
    place = torch.arange(1, 1 + values.shape[1], device=values.device)
    members = place - torch.searchsorted(openers, openers)
    sums, span = rows_of(values, order), 1
    while span < int(members.max()):
        reached = (members > span)[:, span:, None]
        sums = torch.cat([sums[:, :span], sums[:, span:] + reached * sums[:, :-span]], dim=1)
        span *= 2
    return rows_of(sums / members[:, :, None], order.argsort(dim=1))


def rows_of(table: Tensor, places: Tensor) -> Tensor:
    """Rows [N, P, d] of `table` [N, T, d] at `places` [N, P]."""
    return table.gather(1, places[:, :, None].expand(-1, -1, table.shape[2]))


@kernel
def follow(
    first: int,
    stop: int,
    keys: Array,
    queries: Array,
    tau: Array,
    log_strength: Array,
    asked: Array,
    rule: Rule,
    novel: Array,
    near: Array,
    read: Array,
) -> None:
    """Write the choices of sequences first..stop-1."""
    tokens, width = keys.shape[1:]
    most = min(rule.slots, tokens)
    held = np.zeros((width, most))  # so that the slots are what one instruction works on
    # One by one: rows that are unpacked from one array have no stride that the compiler knows.
    opener, last, order = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    usage, strength = np.empty(most, np.float32), np.empty(most)
    key, scores = np.empty(width), np.empty(most)
    for n in range(first, stop):
        count, rate = 0, 0.0
        for t in range(tokens):
            if asked[t]:
                scale(queries[n, t], key)
                score(key, held, strength, count, scores)
                pick(scores, count, read[n, t])
                for c in range(read.shape[2]):
                    if read[n, t, c] >= 0:
                        read[n, t, c] = last[read[n, t, c]]
            if t == 0:
                continue
            entry = t - 1
            scale(keys[n, entry], key)
            slot, fresh, count, rate = write(key, tau[n], rule, held, usage, count, rate, scores, order)
            novel[n, entry] = fresh
            if slot >= 0:
                near[n, entry] = opener[slot]
            if not fresh and not rule.first:
                last[slot], strength[slot] = entry, log_strength[n, entry]
            for m in range(count):
                if order[m] == NEW:
                    opener[m], last[m], strength[m] = entry, entry, log_strength[n, entry]
                else:
                    opener[m], last[m], strength[m] = opener[order[m]], last[order[m]], strength[order[m]]


@kernel
def scale(vector: Array, unit: Array) -> None:
    """Write `vector` [a] scaled to length 1 into `unit` [a]; the shortest become 0."""
    total = 0.0
    for j in range(len(vector)):
        total += vector[j] * vector[j]
    length = math.sqrt(total)
    for j in range(len(vector)):
        unit[j] = vector[j] / length if length > SHORTEST else 0.0


@kernel
def compare(unit: Array, held: Array, count: int, cosines: Array) -> None:
    """Write cosines of `unit` [a] with the first `count` of the unit keys `held` [a, M]."""
    cosines[:count] = 0.0
    for j in range(len(unit)):
        for m in range(count):
            cosines[m] += unit[j] * held[j, m]


@kernel
def score(unit: Array, held: Array, strength: Array, count: int, scores: Array) -> None:
    """Write scores of the first `count` slots for a query."""
    compare(unit, held, count, scores)
    for m in range(count):
        scores[m] = scores[m] / math.sqrt(len(unit)) + strength[m]


@kernel
def pick(scores: Array, count: int, read: Array) -> None:
    """Write which of the first `count` slots have the highest `scores` into `read` [K], -1 where there are no more."""
    for place in range(len(read)):
        best = -1
        for m in range(count):
            if scores[m] > -np.inf and (best < 0 or scores[m] >= scores[best]):
                best = m
        read[place] = best
        if best >= 0:
            scores[best] = -np.inf


@kernel
def write(
    unit: Array,
    tau: float,
    rule: Rule,
    held: Array,
    usage: Array,
    count: int,
    rate: float,
    cosines: Array,
    order: Array,
) -> tuple[int, bool, int, float]:
    """An entry comes, whose key is `unit` [a]: the nearest slot (-1: there is none), whether it is novel, slots, T.

    Keeps `held` [a, M] and `usage` [M] up to date, slots in the order in which they were opened; `order` [M] tells
    where each was before, or NEW.
    """
    compare(unit, held, count, cosines)
    slot = -1
    for m in range(count):
        if slot < 0 or cosines[m] > cosines[slot] + TIE:
            slot = m
        usage[m] *= np.float32(rule.decay)
        order[m] = m
    fresh = slot < 0 or 1.0 - cosines[slot] > tau + TIE
    if not fresh:
        usage[slot] += np.float32(1.0)
    rate = (1.0 - rule.eta) * rate + (rule.eta if fresh else 0.0)
    allowed = min(rule.slots, max(1, math.floor(rule.m0 + rule.beta * rate + TIE)))
    stays = fresh
    while count + (1 if stays else 0) > allowed:
        victim = np.argmin(usage[:count])
        if stays and usage[victim] > 1.0:
            stays = False
            continue
        count -= 1
        for m in range(victim, count):
            usage[m], order[m] = usage[m + 1], order[m + 1]
            held[:, m] = held[:, m + 1]
    if stays:
        held[:, count] = unit
        usage[count], order[count] = 1.0, NEW
        count += 1
    return slot, fresh, count, rate


class Slots(NamedTuple):
    """Slots in use of N sequences, oldest first, as many places as the fullest has.

    keys [N, M, a], values [N, M, d], logarithms of strengths [N, M]; on the CPU, where slots are chosen, usage [N, M],
    how many there are [N], and T [N]; and how many entries each took [N, M] where values are means of them
    """

    keys: Tensor
    values: Tensor
    log_strength: Tensor
    usage: Tensor
    counts: Tensor
    rate: Tensor
    members: Tensor | None = None

    @classmethod
    def none(cls, key: Tensor, value: Tensor, *, means: bool = False) -> Slots:
        """No slots, for entries such as `key` [N, a] and `value` [N, d]."""
        import torch

        counts = torch.zeros(len(key), dtype=torch.int32)
        usage, rate = torch.zeros(len(key), 0), torch.zeros(len(key), dtype=torch.float64)
        nothing = key.new_zeros(len(key), 0)
        members = nothing if means else None
        return cls(key[:, None][:, :0], value[:, None][:, :0], nothing, usage, counts, rate, members)

    def read(self, query: Tensor, top_k: int) -> Tensor:
        """Slots [N, K] that `query` [N, a] reads, best first, or -1."""
        import torch

        read = torch.full((len(query), min(top_k, self.keys.shape[1])), -1)
        arrays = [array(part.detach().cpu().double()) for part in (query, self.keys, self.log_strength)]
        over_lanes(read_step, len(query), *arrays, array(self.counts), array(read))
        return read.to(query.device)

    def written(self, key: Tensor, value: Tensor, log_strength: Tensor, tau: Tensor, rule: Rule) -> Slots:
        """The slots after an entry with `key` [N, a], `value` [N, d] and `log_strength` [N]."""
        import torch

        lanes, places, _ = self.keys.shape
        usage = torch.nn.functional.pad(self.usage, (0, 1))
        counts, rate = self.counts.clone(), self.rate.clone()
        order = torch.full((2, lanes, places + 1), places)
        arrays = [array(part.detach().cpu().double()) for part in (key, tau, self.keys)]
        over_lanes(write_step, lanes, *arrays, rule, *map(array, (usage, counts, rate, order[0], order[1])))
        keys_from, values_from = order[:, :, : int(counts.max())].to(key.device)
        values, members = placed(self.values, value, values_from), None
        if self.members is not None:
            took = values_from == places
            members = placed(self.members, self.members.new_zeros(lanes), keys_from) + took
            before = placed(self.values, value, keys_from)
            values = before + (values - before) / members[:, :, None]
        return Slots(
            placed(self.keys, key, keys_from),
            values,
            placed(self.log_strength, log_strength, values_from),
            usage[:, : keys_from.shape[1]],
            counts,
            rate,
            members,
        )


def placed(old: Tensor, new: Tensor, order: Tensor) -> Tensor:
    """Rows of `old` [N, M, ...] and, as row M, `new` [N, ...], in `order` [N, M']."""
    import torch

    rows = torch.cat([old, new[:, None]], dim=1)
    return rows.gather(1, order.view(*order.shape, *[1] * (old.dim() - 2)).expand(-1, -1, *old.shape[2:]))


@kernel
def read_step(
    first: int, stop: int, query: Array, keys: Array, log_strength: Array, counts: Array, read: Array
) -> None:
    """Write which slots [N, K] `query` [N, a] reads."""
    places, width = keys.shape[1:]
    held, key, scores = np.zeros((width, places)), np.empty(width), np.empty(places)
    for n in range(first, stop):
        unpack(keys[n], counts[n], held, key)
        scale(query[n], key)
        score(key, held, log_strength[n], counts[n], scores)
        pick(scores, counts[n], read[n])


@kernel
def write_step(
    first: int,
    stop: int,
    key: Array,
    tau: Array,
    keys: Array,
    rule: Rule,
    usage: Array,
    counts: Array,
    rate: Array,
    keys_from: Array,
    values_from: Array,
) -> None:
    """Write `usage` [N, M + 1], `counts` [N] and `rate` [N] after an entry, and where keys and values come from.

    `keys_from` and `values_from` [N, M + 1] are places among the M before, and M, that of the entry.
    """
    places, width = keys.shape[1:]
    held, unit = np.zeros((width, places + 1)), np.empty(width)
    cosines, order = np.empty(places + 1), np.empty(places + 1, np.int64)
    for n in range(first, stop):
        unpack(keys[n], counts[n], held, unit)
        scale(key[n], unit)
        slot, fresh, counts[n], rate[n] = write(unit, tau[n], rule, held, usage[n], counts[n], rate[n], cosines, order)
        for m in range(counts[n]):
            keys_from[n, m] = places if order[m] == NEW else order[m]
            taken = order[m] == NEW or (not fresh and not rule.first and order[m] == slot)
            values_from[n, m] = places if taken else order[m]


@kernel
def unpack(keys: Array, count: int, held: Array, unit: Array) -> None:
    """Write the first `count` of `keys` [M, a], scaled to length 1, into the columns of `held`."""
    for m in range(count):
        scale(keys[m], unit)
        held[:, m] = unit
