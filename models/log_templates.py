"""Templates of log lines in flat arrays, and the compiled rule that takes a line into the nearest or opens another.

Words are numbers, 0 being the wildcard. Templates hang in a tree: below the root a node for each number of words, below
these, for parsers that look at first words, a node for each of them. Arrays grow between calls: kernels stop for that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.kernel import kernel
from models.stream import Ints

WILDCARD = 0
WILDCARD_WORD = "<*>"
"""Stands in a template where its lines differ."""

MOST_CHILDREN = 100
"""Children of a node below the first, the wildcard's among them; words beyond these share the wildcard's."""

TEMPLATES, WORDS, NODES = 0, 1, 2
"""What is counted in `Tables.sizes`."""


class Rules(NamedTuple):
    """When a line belongs to a template.

    similarity         least fraction of words shared
    levels             first words, but never the last, by which templates are found; 0: the number of words is enough
    wildcards_match    a wildcard is a shared word
    wildcards_settle   ties go to the template of most wildcards, then to the oldest; else at once to the oldest
    """

    similarity: float
    levels: int
    wildcards_match: bool
    wildcards_settle: bool


class Tables(NamedTuple):
    """All templates and the tree that finds them; `sizes` [3] says how much of the others is in use.

    words      words of the templates, one template after another
    templates  [M, 5] where its words begin, how many they are, how many are wildcards, next template of its node or -1,
               and the node of its number of words
    nodes      [N, 6] node above, word that leads here (below the root: number of words), nodes below, first and last
               template or -1; of a number of words: how often templates of that length have changed
    places     nodes by hash of their first two columns, -1 where free; a power of two long
    known      [K, 3] lines of late by hash (K a power of two): hash, template, and how often its length had changed: a
               line that comes again before the next change would go the same way
    """

    sizes: Ints
    words: Ints
    templates: Ints
    nodes: Ints
    places: Ints
    known: Ints


BEGIN, LENGTH, WILD, NEXT, TOP = range(5)
PARENT, STEP, BELOW, OLDEST, NEWEST, CHANGES = range(6)
KEY, SLOT, STAMP = range(3)

KNOWN_LINES = 4096
HASH_FACTOR, PLACE_FACTOR = 0x100000001B3, 0x9E3779B97F4A7C15
"""Kernels multiply them without sign, for with a sign compilers take it that nothing overflows."""


def empty_tables() -> Tables:
    """Room for some templates, and a root."""
    words, templates, nodes = (np.zeros(shape, dtype=np.int64) for shape in (1024, (64, 5), (128, 6)))
    places, known = (np.full(shape, -1, dtype=np.int64) for shape in (256, (KNOWN_LINES, 3)))
    return Tables(np.array([0, 0, 1]), words, templates, nodes, places, known)


def with_room(tables: Tables, words: int, levels: int) -> Tables:
    """`tables`, made longer where they could not take one more line of `words` words."""
    templates, held, nodes = tables.sizes.tolist()
    if held + words > len(tables.words):
        tables = tables._replace(words=longer(tables.words, held + words))
    if templates == len(tables.templates):
        tables = tables._replace(templates=longer(tables.templates, templates + 1))
    if nodes + 1 + levels > len(tables.nodes):
        more = longer(tables.nodes, nodes + 1 + levels)
        tables = tables._replace(nodes=more, places=np.full(4 << len(more).bit_length(), -1, dtype=np.int64))
        put_in_places(tables)
    return tables


def longer(array: Ints, least: int) -> Ints:
    """`array` in twice as much room, `least` rows at the least."""
    made = np.zeros((max(2 * len(array), least), *array.shape[1:]), dtype=np.int64)
    made[: len(array)] = array
    return made


@kernel
def has_room(words, levels, sizes, held, templates, nodes):  # type: ignore[no-untyped-def]
    """Whether one more line of `words` words can be taken."""
    return (
        sizes[TEMPLATES] < len(templates)
        and sizes[WORDS] + words <= len(held)
        and sizes[NODES] + 1 + levels <= len(nodes)
    )


@kernel
def place_of(places, parent, step):  # type: ignore[no-untyped-def]
    """Where to begin to look for the child of `parent` by `step`."""
    mixed = (np.uint64(step) + np.uint64(parent) * np.uint64(HASH_FACTOR)) * np.uint64(PLACE_FACTOR)
    return np.int64((mixed ^ (mixed >> np.uint64(29))) & np.uint64(len(places) - 1))


@kernel
def enter(places, nodes, node):  # type: ignore[no-untyped-def]
    """Enter `node` into `places`."""
    at = place_of(places, nodes[node, PARENT], nodes[node, STEP])
    while places[at] >= 0:
        at = (at + 1) & (len(places) - 1)
    places[at] = node


@kernel
def put_in_places(tables):  # type: ignore[no-untyped-def]
    """Enter all nodes but the root into empty `places`."""
    for node in range(1, tables.sizes[NODES]):
        enter(tables.places, tables.nodes, node)


@kernel
def child(places, nodes, parent, step):  # type: ignore[no-untyped-def]
    """The node below `parent` by `step`, -1 if there is none."""
    at = place_of(places, parent, step)
    while places[at] >= 0:
        node = places[at]
        if nodes[node, PARENT] == parent and nodes[node, STEP] == step:
            return node
        at = (at + 1) & (len(places) - 1)
    return -1


@kernel
def child_or_new(sizes, places, nodes, parent, step):  # type: ignore[no-untyped-def]
    """The node below `parent` by `step`, made if need be."""
    node = child(places, nodes, parent, step)
    if node < 0:
        node = sizes[NODES]
        sizes[NODES] += 1
        nodes[node] = (parent, step, 0, -1, -1, 0)
        nodes[parent, BELOW] += 1
        enter(places, nodes, node)
    return node


@kernel
def found(line, length, levels, node, places, nodes):  # type: ignore[no-untyped-def]
    """The node, at or below that of the line's length, whose templates it is compared with; -1 if there is none yet."""
    for i in range(min(levels, length - 1)):
        if node < 0:
            break
        below = child(places, nodes, node, line[i])
        node = below if below >= 0 else child(places, nodes, node, WILDCARD)
    return node


@kernel
def placed(line, numeric, length, levels, node, sizes, places, nodes):  # type: ignore[no-untyped-def]
    """The node, made if need be, at or below that of the line's length, that a template made of the line goes to.

    Words with a digit in them (`numeric`) and words for which there is no room go to the wildcard's node.
    """
    for i in range(min(levels, length - 1)):
        step = line[i]
        if child(places, nodes, node, step) < 0:
            taken = nodes[node, BELOW] + (child(places, nodes, node, WILDCARD) < 0)
            if numeric[i] or taken >= MOST_CHILDREN:
                step = WILDCARD
        node = child_or_new(sizes, places, nodes, node, step)
    return node


@kernel
def least_shared(length, similarity):  # type: ignore[no-untyped-def]
    """How many of `length` words must be shared."""
    least = int(similarity * length)
    while least > 0 and (least - 1) / length >= similarity:
        least -= 1
    while least < length and least / length < similarity:
        least += 1
    return least


@kernel
def nearest(line, length, slot, rules, held, templates):  # type: ignore[no-untyped-def]
    """The template, of `slot` and those that follow it, that the line belongs to, or -1; held: words of templates.

    A template is left as soon as it cannot win.
    """
    best, most_wild = -1, -1
    most = least_shared(length, rules.similarity) - 1
    while slot >= 0 and (rules.wildcards_settle or most < length):
        wild = templates[slot, WILD]
        possible = length if rules.wildcards_match else length - wild
        settles = rules.wildcards_settle and best >= 0 and wild > most_wild
        spare = possible - (most if settles else most + 1)
        begin, missed, i = templates[slot, BEGIN], 0, 0
        while i < length and missed <= spare:
            word = held[begin + i]
            missed += word != WILDCARD and word != line[i]
            i += 1
        if missed <= spare:
            best, most, most_wild = slot, possible - missed, wild
        slot = templates[slot, NEXT]
    return best


@kernel
def open_template(line, length, top, node, sizes, held, templates, nodes):  # type: ignore[no-untyped-def]
    """The template, made of the line, that is now the newest of `node`, which is at or below `top`."""
    slot, begin = sizes[TEMPLATES], sizes[WORDS]
    sizes[TEMPLATES] += 1
    sizes[WORDS] += length
    wild = 0
    for i in range(length):
        held[begin + i] = line[i]
        wild += line[i] == WILDCARD
    templates[slot] = (begin, length, wild, -1, top)
    nodes[top, CHANGES] += 1
    if nodes[node, NEWEST] < 0:
        nodes[node, OLDEST] = slot
    else:
        templates[nodes[node, NEWEST], NEXT] = slot
    nodes[node, NEWEST] = slot
    return slot


@kernel
def line_hash(line, length):  # type: ignore[no-untyped-def]
    """A hash of the line's words."""
    value = np.uint64(0)
    for i in range(length):
        value = (value ^ np.uint64(line[i])) * np.uint64(HASH_FACTOR)
    return np.int64(value)


@kernel
def place_of_known(key, known):  # type: ignore[no-untyped-def]
    """Where a line with the hash `key` is kept."""
    return (key ^ (key >> 32)) & (len(known) - 1)


@kernel
def recalled(key, length, templates, nodes, known):  # type: ignore[no-untyped-def]
    """The template of a line of late that nothing has changed since; -1 if there is none."""
    at = place_of_known(key, known)
    slot = known[at, SLOT]
    if slot < 0 or known[at, KEY] != key or templates[slot, LENGTH] != length:
        return -1
    return slot if known[at, STAMP] == nodes[templates[slot, TOP], CHANGES] else -1


@kernel
def take(line, numeric, key, length, rules, sizes, held, templates, nodes, places, known):  # type: ignore[no-untyped-def]
    """The template of a line that is not `recalled`, opened or changed as need be; there must be room."""
    top = child_or_new(sizes, places, nodes, 0, length)
    node = found(line, length, rules.levels, top, places, nodes)
    slot = nearest(line, length, nodes[node, OLDEST], rules, held, templates) if node >= 0 else -1
    if slot < 0:
        node = placed(line, numeric, length, rules.levels, top, sizes, places, nodes)
        return open_template(line, length, top, node, sizes, held, templates, nodes)
    begin, wild = templates[slot, BEGIN], templates[slot, WILD]
    for i in range(length):
        word = held[begin + i]
        if word != line[i] and word != WILDCARD:
            held[begin + i] = WILDCARD
            templates[slot, WILD] += 1
    if templates[slot, WILD] > wild:
        nodes[top, CHANGES] += 1
    else:
        at = place_of_known(key, known)
        known[at, KEY], known[at, SLOT], known[at, STAMP] = key, slot, nodes[top, CHANGES]
    return slot


@kernel
def take_lines(words, ends, numeric, start, rules, tables, groups):  # type: ignore[no-untyped-def]
    """Put the templates of the lines from `start` on into `groups`; returns the first for which there was no room.

    words: of all lines, one after another; ends: where each ends [lines]; numeric: of each of `words`.
    """
    sizes, held, templates, nodes, places, known = tables
    for t in range(start, len(ends)):
        begin = ends[t - 1] if t else 0
        length = ends[t] - begin
        line, of_line = words[begin : ends[t]], numeric[begin : ends[t]]
        key = line_hash(line, length)
        slot = recalled(key, length, templates, nodes, known)
        if slot < 0:
            if not has_room(length, rules.levels, sizes, held, templates, nodes):
                return t
            slot = take(line, of_line, key, length, rules, sizes, held, templates, nodes, places, known)
        groups[t] = slot
    return len(ends)


class Templates:
    """Templates that grow as lines are read under `rules`."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.tables = empty_tables()

    def __len__(self) -> int:
        return int(self.tables.sizes[TEMPLATES])

    def read(self, words: Ints, ends: Ints, numeric: NDArray[np.bool_], groups: Ints) -> None:
        """Put the template of each line into `groups`; arrays as `take_lines` has them."""
        start = 0
        while (start := take_lines(words, ends, numeric, start, self.rules, self.tables, groups)) < len(ends):
            self.make_room(int(ends[start]) - (int(ends[start - 1]) if start else 0))

    def make_room(self, words: int) -> None:
        """Let a line of up to `words` words be taken."""
        self.tables = with_room(self.tables, words, self.rules.levels)

    def template(self, slot: int) -> Ints:
        """Words of a template."""
        begin, length = self.tables.templates[slot, :2]
        return self.tables.words[begin : begin + length]

    def steps(self) -> tuple[Ints, int]:
        """Words that lead to nodes below the first level, and how many nodes the first has."""
        parents, steps = self.tables.nodes[1 : int(self.tables.sizes[NODES]), :2].T
        return steps[parents > 0], int((parents == 0).sum())
