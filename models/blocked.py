"""The slots of a Dirichlet-process cache built block by block: matrix products at the speed of the machine.

A block of tokens meets all slots in one float32 product. Only what that product leaves open is settled in float64:
thresholds and ties within its rounding error. So every decision is that of the scalar float64 rule, whatever the block.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.kernel import kernel
from models.mechanism import NEAR_ONE
from models.stream import Floats, Ints

Singles = NDArray[np.float32]
Keys = Floats | Singles

BLOCK_TOKENS = 512
CHUNK_SLOTS = 256
"""Tokens and slots whose cosines are computed at once: 512 KiB, which stays in a core's own cache."""

MOST_COSINES = 1 << 23
"""Cosines of a block with all slots, at most: 32 MiB. With more than 16,384 slots blocks are shorter."""


class Built(NamedTuple):
    """slots [m]: the token whose key each slot stores; assignment [N]: the slot each token opened or merged into."""

    slots: Ints
    assignment: Ints


def build_slots(keys: Keys, tau: float, block: int = BLOCK_TOKENS) -> Built:
    """Slots that tokens with `keys` [N, d] open under novelty threshold `tau` (arXiv 2607.09889, Eqs. 1-2).

    Keys are first occurrences, a token merges into the nearest slot (the oldest on a tie), nothing is evicted.
    Work is 2 N m d for m slots, and 2 b u d for the u tokens in all that a block of b could not place by older slots.
    """
    build = BlockedBuild(keys, tau, block)
    build.read(0, len(keys))
    return Built(build.slots, build.assignment)


def naive_build_slots(keys: Keys, tau: float) -> Built:
    """The same slots from one float32 matrix-vector product a token: what `build_slots` is compared with."""
    lengths, rough = scaled(keys)
    margin = rounding_margin(keys.shape[1])
    stored = np.empty_like(rough)
    slots, assignment = np.empty((2, len(keys)), dtype=np.int64)
    count = 0
    for t, key in enumerate(rough):
        slot = -1
        if count:
            cosines = stored[:count] @ key
            slot = int(cosines.argmax())
            near = cosines >= cosines[slot] - margin
            if np.count_nonzero(near) > 1 or abs(1.0 - cosines[slot] - tau) <= margin:
                slot = settle(keys, lengths, t, slots, np.flatnonzero(near), tau)
            elif 1.0 - cosines[slot] > tau:
                slot = -1
        if slot < 0:
            slot, slots[count], stored[count] = count, t, key
            count += 1
        assignment[t] = slot
    return Built(slots[:count].copy(), assignment)


def reference_build_slots(keys: Keys, tau: float) -> Built:
    """The same slots in float64, one token and one slot at a time, for reading and for tests."""
    lengths, _ = scaled(keys)
    units = [[float(x) / length if length > 0 else 0.0 for x in key] for key, length in zip(keys, lengths, strict=True)]
    slots: list[int] = []
    assignment: list[int] = []
    for t, key in enumerate(units):
        nearest, highest = -1, -math.inf
        for slot, token in enumerate(slots):
            cosine = 0.0
            for x, y in zip(key, units[token], strict=True):
                cosine += x * y
            cosine = 1.0 if cosine > NEAR_ONE else cosine
            if cosine > highest:
                nearest, highest = slot, cosine
        if 1.0 - highest > tau:
            nearest = len(slots)
            slots.append(t)
        assignment.append(nearest)
    return Built(np.array(slots, dtype=np.int64), np.array(assignment, dtype=np.int64))


class BlockedBuild:
    """`build_slots` for tokens that are read some at a time; `assignment` is valid up to the last token read."""

    def __init__(self, keys: Keys, tau: float, block: int = BLOCK_TOKENS) -> None:
        self.keys, self.tau, self.block = keys, tau, block
        self.margin = rounding_margin(keys.shape[1])
        self.clear = clear_cosine(tau, self.margin)
        self.lengths = np.empty(len(keys))
        self.tokens, self.assignment = np.empty((2, len(keys)), dtype=np.int64)
        self.count = 0
        self._stored = np.empty((keys.shape[1], 64), dtype=np.float32)  # keys of slots as columns
        self._keys = np.empty((block, keys.shape[1]), dtype=np.float32)
        self._cosines = np.empty(0, dtype=np.float32)
        self._mostly_clear = True

    @property
    def slots(self) -> Ints:
        """Tokens [m] whose keys the slots store."""
        return self.tokens[: self.count]

    def read(self, start: int, stop: int) -> None:
        """Read tokens start..stop-1, the next in order."""
        while start < stop:
            end = min(start + self.block, start + max(1, MOST_COSINES // max(1, self.count)), stop)
            self._read_block(start, end)
            start = end

    def _read_block(self, first: int, stop: int) -> None:
        """Let tokens that are clearly one slot's merge into it, and place the others one by one."""
        keys = self._keys[: stop - first]
        scale(self.keys[first:stop], self.lengths[first:stop], keys)
        rows, cosines = self._screen(keys, self.assignment[first:stop])
        if len(rows) == 0:
            return
        where = np.arange(len(rows)) if len(cosines) == len(rows) else rows
        nearest, highest = best_of_rows(cosines)
        unplaced = np.flatnonzero(1.0 - highest[where] > self.tau - self.margin)
        among = keys[rows] @ keys[rows[unplaced]].T
        before = self.count
        self.count = place(
            self.keys, self.lengths, first + rows, cosines, nearest, highest, where, among, unplaced,
            self.tau, self.margin, self.clear, self.tokens, before, self.assignment,
        )  # fmt: skip
        self._store(keys[self.tokens[before : self.count] - first], before)

    def _screen(self, keys: Singles, assignment: Ints) -> tuple[Ints, Singles]:
        """Assign rows of `keys` that are clearly one slot's; returns the others, and cosines with every slot.

        The cosines are those of these rows, or of all. Where most rows are clear they meet some slots at a time, and no
        more once they are assigned.
        """
        rows = np.arange(len(keys))
        width = CHUNK_SLOTS if self._mostly_clear else max(1, self.count)
        cosines = self._with_slots(keys, 0, 0)
        for start in range(0, self.count, width):
            cosines = self._with_slots(keys[rows] if start else keys, start, min(start + width, self.count))
            unclear = assign_clear(cosines, start, self.clear, rows, assignment)
            rows = rows[unclear]
            if len(rows) == 0:
                break
        self._mostly_clear = 2 * len(rows) < len(keys)
        if self.count > width:
            return rows, self._with_slots(keys[rows], 0, self.count)
        return rows, cosines[rows] if self._mostly_clear else cosines

    def _with_slots(self, keys: Singles, start: int, stop: int) -> Singles:
        """Cosines [b, stop - start] of keys with slots start..stop-1, in memory that the next call uses again."""
        size = len(keys) * (stop - start)
        if size > len(self._cosines):
            self._cosines = np.empty(2 * size, dtype=np.float32)
        out = self._cosines[:size].reshape(len(keys), stop - start)
        product: Singles = np.matmul(keys, self._stored[:, start:stop], out=out)
        return product

    def _store(self, keys: Singles, before: int) -> None:
        """Store the keys of slots from the `before`-th on; room doubles."""
        dim, room = self._stored.shape
        if self.count > room:
            grown = np.empty((dim, max(self.count, 2 * room)), dtype=np.float32)
            grown[:, :before] = self._stored[:, :before]
            self._stored = grown
        self._stored[:, before : self.count] = keys.T


def best_of_rows(cosines: Singles) -> tuple[Ints, Singles]:
    """Index and value of the largest entry of each row [b]; -1 and -inf where rows are empty."""
    if cosines.shape[1] == 0:
        return np.full(len(cosines), -1), np.full(len(cosines), -np.inf, dtype=np.float32)
    nearest = cosines.argmax(axis=1)
    return nearest, cosines[np.arange(len(cosines)), nearest]


def rounding_margin(dim: int) -> float:
    """Twice the most by which a float32 product of unit keys [dim] can miss their cosine (Higham 2002, Sec. 3.1)."""
    return 2.0 * (dim + 6) * float(np.finfo(np.float32).eps)


def clear_cosine(tau: float, margin: float) -> float:
    """A float32 cosine with one slot above which a token merges into it: every other is lower by more than `margin`.

    Two slots are at least the angle a apart whose cosine is 1 - tau. By the triangle inequality on the sphere, a token
    at an angle x from one of them is at least a - x from the other; the cosines differ by 2 sin(a/2) sin(a/2 - x).
    """
    half = math.acos(max(-1.0, min(1.0, 1.0 - tau))) / 2.0
    gap = math.asin(margin / math.sin(half)) if math.sin(half) > margin else math.inf
    if gap > half:
        return 2.0  # slots may be so close that nothing is clear
    return max(math.cos(half - gap) + margin, 1.0 - tau + 2.0 * margin, 3.0 * margin)


def scaled(keys: Keys) -> tuple[Floats, Singles]:
    """Lengths [N] of keys, and the keys scaled to length 1 in float32."""
    lengths, rough = np.empty(len(keys)), np.empty(keys.shape, dtype=np.float32)
    scale(keys, lengths, rough)
    return lengths, rough


@kernel
def scale(keys: Keys, lengths: Floats, rough: Singles) -> None:
    """Write lengths [b] in float64, and keys [b, d] scaled to length 1 in float32; a zero key stays zero."""
    dim = keys.shape[1]
    lanes = np.empty(8)  # eight sums at once fill a register
    for r in range(len(keys)):
        lanes[:] = 0.0
        for k in range(0, dim - 7, 8):
            for lane in range(8):
                x = np.float64(keys[r, k + lane])
                lanes[lane] += x * x
        for k in range(dim - dim % 8, dim):
            x = np.float64(keys[r, k])
            lanes[0] += x * x
        square = 0.0
        for lane in range(8):
            square += lanes[lane]
        lengths[r] = math.sqrt(square)
        factor = np.float32(1.0 / lengths[r]) if lengths[r] > 0.0 else np.float32(0.0)
        for k in range(dim):
            rough[r, k] = keys[r, k] * factor


@kernel
def settle(keys: Keys, lengths: Floats, token: int, slots: Ints, near: Ints, tau: float) -> int:
    """Which of the slots `near` the token merges into, in float64; -1 if it opens a slot."""
    nearest, highest = -1, -np.inf
    for slot in near:
        other = slots[slot]
        cosine = 0.0
        if lengths[token] > 0.0 and lengths[other] > 0.0:
            for k in range(keys.shape[1]):
                cosine += (keys[token, k] / lengths[token]) * (keys[other, k] / lengths[other])
        cosine = 1.0 if cosine > NEAR_ONE else cosine
        if cosine > highest:
            nearest, highest = slot, cosine
    return nearest if 1.0 - highest <= tau else -1


@kernel
def assign_clear(cosines: Singles, start: int, clear: float, rows: Ints, assignment: Ints) -> Ints:
    """Assign those of `rows` that are clearly one of some slots', from slot `start` on; indices of the other rows."""
    limit = np.float32(clear)
    unclear = np.empty(len(rows), dtype=np.int64)
    kept = 0
    for r in range(len(rows)):
        row = cosines[r]
        above, slot = 0, start
        for s in range(len(row)):  # without a branch, many at once
            is_above = row[s] > limit
            above += is_above
            slot += is_above * s
        if above > 0:
            assignment[rows[r]] = slot  # no two slots are clear
        else:
            unclear[kept] = r
            kept += 1
    return unclear[:kept]


@kernel
def place(
    keys: Keys,
    lengths: Floats,
    tokens: Ints,
    cosines: Singles,
    nearest: Ints,
    highest: Singles,
    where: Ints,
    among: Singles,
    unplaced: Ints,
    tau: float,
    margin: float,
    clear: float,
    slots: Ints,
    count: int,
    assignment: Ints,
) -> int:
    """Let `tokens` [b] of a block merge into slots or open them; returns the slots there are then.

    cosines [n, count]: with the slots before the block, of which slot `nearest` [n] has the `highest` [n]; where [b]:
    each token's row of these; unplaced [u]: those of the tokens that may open a slot, among [b, u]: cosines with these.
    Writes slots [N] and assignment [N].
    """
    old, waiting = count, 0
    columns = np.empty(len(unplaced), dtype=np.int64)
    near = np.empty(old + len(unplaced), dtype=np.int64)
    for r in range(len(tokens)):
        t = tokens[r]
        slot, top = nearest[where[r]], highest[where[r]]
        for k in range(count - old):
            if among[r, columns[k]] > top:
                slot, top = old + k, among[r, columns[k]]
        novelty = 1.0 - top
        if novelty > tau + margin:
            slot = -1
        elif novelty >= tau - margin or top <= clear:
            border = np.float32(top - margin)
            row, others = cosines[where[r]], among[r]
            if novelty >= tau - margin or count_near(row, others, columns[: count - old], border) > 1:
                found = near_slots(row, others, columns[: count - old], border, near)
                slot = settle(keys, lengths, t, slots, near[:found], tau)
        may_open = waiting < len(unplaced) and unplaced[waiting] == r
        if slot < 0:
            slot = count
            slots[slot], columns[slot - old] = t, waiting
            count += 1
        waiting += may_open
        assignment[t] = slot
    return count


@kernel
def count_near(cosines: Singles, among: Singles, columns: Ints, border: np.float32) -> int:
    """How many slots have a cosine of at least `border`: of `cosines` [m], and of `among` at `columns`."""
    found = 0
    for slot in range(len(cosines)):  # without a branch, many at once
        found += cosines[slot] >= border
    for k in range(len(columns)):
        found += among[columns[k]] >= border
    return found


@kernel
def near_slots(cosines: Singles, among: Singles, columns: Ints, border: np.float32, near: Ints) -> int:
    """List in `near` the slots, oldest first, that `count_near` counts; returns how many they are."""
    found = 0
    for slot in range(len(cosines)):
        if cosines[slot] >= border:
            near[found] = slot
            found += 1
    for k in range(len(columns)):
        if among[columns[k]] >= border:
            near[found] = len(cosines) + k
            found += 1
    return found
