"""Drain: a log parser that finds the templates to compare a line with in a tree of fixed depth."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.log_parsing import LogParser, LogParserConfig, masked, trace_parse
from models.log_templates import MOST_CHILDREN, WILDCARD_WORD, Rules, Templates
from models.mechanism import Trace, mechanism
from models.stream import Ints, Stream

EDGE_BYTES = 4
"""What an edge of the tree takes beside its word."""


class DrainParserConfig(LogParserConfig):
    """Drain (He et al. 2017, doi:10.1109/ICWS.2017.13), as its maintained implementation drain3 0.9.11 has it.

    Nothing is masked unless told, and no template is evicted.
    """

    name: Literal["drain_parser"] = "drain_parser"
    depth: int = Field(
        4, ge=3, le=100, description="levels of the tree: root, number of words, first words (depth - 3), templates"
    )
    count_wildcards: bool = Field(
        False, description="whether a wildcard of a template counts as a shared word: in Drain it does not"
    )


@mechanism(DrainParserConfig)
class DrainParser(LogParser[DrainParserConfig]):
    """Write O(m n) for the m templates of a leaf and lines of n words.

    A line goes down by its number of words, then by its first words but the last: each to the child of that word, else
    to the wildcard's. Among the templates there a wildcard is no shared word, unless told. Ties: most
    wildcards, then the oldest. A new template goes down in the same way, except that words with a digit go to the
    wildcard's child, and others open a child of their own, up to 100.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("similarity", "depth", "count_wildcards")

    def rules(self, config: DrainParserConfig) -> Rules:
        return Rules(config.similarity, config.depth - 3, config.count_wildcards, True)

    def index_bytes(self, templates: Templates, word_bytes: Ints) -> int:
        """The words of the tree's edges, and 4 bytes an edge."""
        words, roots = templates.steps()
        return int(word_bytes[words].sum()) + EDGE_BYTES * (len(words) + roots)

    @classmethod
    def reference(
        cls, stream: Stream, config: DrainParserConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        return trace_parse(stream, reference_parse(stream.lines or (), config)[1])


def reference_parse(lines: tuple[tuple[str, ...], ...], config: DrainParserConfig) -> tuple[list[list[str]], list[int]]:
    """The same rule as a plain loop: templates in order of opening, and the template of each line.

    The tree is a set of paths: (number of words, word, ..., word).
    """
    templates: list[list[str]] = []
    groups: list[int] = []
    nodes: set[tuple[int | str, ...]] = set()
    placed: list[tuple[int | str, ...]] = []
    for line in masked(lines, config):
        path = reference_descent(line, config.depth, nodes)
        best, most = -1, (-1.0, -1)
        for slot, template in enumerate(templates):
            if placed[slot] == path:
                pairs = zip(template, line, strict=True)
                shared = 0
                for held, word in pairs:
                    shared += config.count_wildcards if held == WILDCARD_WORD else held == word
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
        has_digit = any("0" <= character <= "9" for character in word)
        shared = (*path, word) not in nodes and (has_digit or len(children) >= MOST_CHILDREN)
        path = (*path, WILDCARD_WORD if shared else word)
        nodes.add(path)
    return path
