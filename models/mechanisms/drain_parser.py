"""Drain: a log parser that finds the templates to compare a line with in a tree of fixed depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.log_parsing import WILDCARD, WILDCARD_WORD, Index, Leaf, LogParser, LogParserConfig, trace_parse
from models.mechanism import Trace, mechanism
from models.stream import Ints, Stream

MOST_CHILDREN = 100
"""Children of a node, the wildcard's among them; words beyond these share the wildcard's."""

EDGE_BYTES = 4
"""What an edge of the tree takes beside its word."""


class DrainParserConfig(LogParserConfig):
    """Drain (He et al. 2017, doi:10.1109/ICWS.2017.13), as its maintained implementation drain3 0.9.11 has it.

    No regular expressions are applied to lines first, and no template is evicted.
    """

    name: Literal["drain_parser"] = "drain_parser"
    depth: int = Field(
        4, ge=3, le=100, description="levels of the tree: root, number of words, first words (depth - 3), templates"
    )


@mechanism(DrainParserConfig)
class DrainParser(LogParser[DrainParserConfig]):
    """Write O(m n) for the m templates of a leaf and lines of n words.

    A line goes down by its number of words, then by its first words but the last: each to the child of that word, else
    to the wildcard's. Among the templates there a wildcard is no shared word. Ties: most wildcards, then the oldest.
    A new template goes down in the same way, except that words with a digit go to the wildcard's child, and others open
    a child of their own, up to 100.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("similarity", "depth")

    def index(self, config: DrainParserConfig, numeric: list[bool]) -> Index:
        return PrefixTree(config.depth, numeric)

    def matching(self, config: DrainParserConfig) -> tuple[bool, bool]:
        return False, True

    @classmethod
    def reference(
        cls, stream: Stream, config: DrainParserConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        return trace_parse(stream, reference_parse(stream.lines or (), config)[1])


class Node:
    """A node of the tree: children by word, and the templates of lines that end here."""

    def __init__(self, length: int) -> None:
        self.children: dict[int, Node] = {}
        self.leaf = Leaf(length)

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for child in self.children.values():
            yield from child.walk()


class PrefixTree:
    """Leaves by number of words and by first words."""

    def __init__(self, depth: int, numeric: list[bool]) -> None:
        self.levels = depth - 3
        self.numeric = numeric
        self.roots: dict[int, Node] = {}

    def _path(self, line: Ints) -> list[int]:
        """Words that lead `line` to its leaf."""
        path: list[int] = line[: min(self.levels, max(len(line) - 1, 0))].tolist()
        return path

    def find(self, line: Ints) -> Leaf | None:
        node = self.roots.get(len(line))
        for word in self._path(line):
            if node is None:
                return None
            node = node.children.get(word, node.children.get(WILDCARD))
        return None if node is None else node.leaf

    def place(self, line: Ints) -> Leaf:
        length = len(line)
        node = self.roots.setdefault(length, Node(length))
        for word in self._path(line):
            shared = word not in node.children and (self.numeric[word] or self._full(node))
            node = node.children.setdefault(WILDCARD if shared else word, Node(length))
        return node.leaf

    def _full(self, node: Node) -> bool:
        """Whether there is no room for another word: one place is kept for the wildcard."""
        return len(node.children) + (WILDCARD not in node.children) >= MOST_CHILDREN

    def _nodes(self) -> Iterator[Node]:
        for root in self.roots.values():
            yield from root.walk()

    def leaves(self) -> Iterator[Leaf]:
        for node in self._nodes():
            yield node.leaf

    def own_bytes(self, word_bytes: Ints) -> int:
        """The words of its edges, and 4 bytes an edge."""
        edges = [word for node in self._nodes() for word in node.children]
        return int(word_bytes[edges].sum()) + EDGE_BYTES * (len(edges) + len(self.roots))


def reference_parse(lines: tuple[tuple[str, ...], ...], config: DrainParserConfig) -> tuple[list[list[str]], list[int]]:
    """The same rule as a plain loop: templates in order of opening, and the template of each line.

    The tree is a set of paths: (number of words, word, ..., word).
    """
    templates: list[list[str]] = []
    groups: list[int] = []
    nodes: set[tuple[int | str, ...]] = set()
    placed: list[tuple[int | str, ...]] = []
    for line in lines:
        path = reference_descent(line, config.depth, nodes)
        best, most = -1, (-1.0, -1)
        for slot, template in enumerate(templates):
            if placed[slot] == path:
                pairs = zip(template, line, strict=True)
                shared = sum(held == word != WILDCARD_WORD for held, word in pairs)
                rank = (shared / len(line) if line else 1.0, template.count(WILDCARD_WORD))
                if rank > most:
                    best, most = slot, rank
        if most[0] >= config.similarity:
            pairs = zip(templates[best], line, strict=True)
            templates[best] = [held if held == word else WILDCARD_WORD for held, word in pairs]
        else:
            best = len(templates)
            templates.append(list(line))
            placed.append(reference_place(line, config.depth, nodes))
        groups.append(best)
    return templates, groups


def reference_descent(
    line: tuple[str, ...], depth: int, nodes: set[tuple[int | str, ...]]
) -> tuple[int | str, ...] | None:
    """Where a search for `line` ends among `nodes`; None if it has nowhere to go on."""
    path: tuple[int | str, ...] = (len(line),)
    for word in line[:-1][: depth - 3]:
        exact, other = (*path, word), (*path, WILDCARD_WORD)
        if exact not in nodes and other not in nodes:
            return None
        path = exact if exact in nodes else other
    return path


def reference_place(line: tuple[str, ...], depth: int, nodes: set[tuple[int | str, ...]]) -> tuple[int | str, ...]:
    """Where a new template `line` goes; adds the nodes on the way to `nodes`."""
    path: tuple[int | str, ...] = (len(line),)
    for word in line[:-1][: depth - 3]:
        children = {node[-1] for node in nodes if node[:-1] == path} | {WILDCARD_WORD}
        has_digit = any(character.isdigit() for character in word)
        shared = (*path, word) not in nodes and (has_digit or len(children) >= MOST_CHILDREN)
        path = (*path, WILDCARD_WORD if shared else word)
        nodes.add(path)
    return path
