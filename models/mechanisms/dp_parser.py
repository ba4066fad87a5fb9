"""A log parser that opens templates by novelty, as the Dirichlet-process cache opens slots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.log_parsing import WILDCARD_WORD, Index, Leaf, LogParser, LogParserConfig, trace_parse
from models.mechanism import Trace, mechanism
from models.stream import Ints, Stream


class DPParserConfig(LogParserConfig):
    """Online parser without a tree: a line is compared with every template of its length (arXiv 2607.09889, §3.1.7)."""

    name: Literal["dp_parser"] = "dp_parser"
    count_wildcards: bool = Field(
        True, description="whether a wildcard of a template counts as a shared word: published so; Drain does not"
    )


@mechanism(DPParserConfig)
class DPParser(LogParser[DPParserConfig]):
    """Write O(m n) for m templates and lines of n words. Ties: the oldest template."""

    batch_over: ClassVar[tuple[str, ...]] = ("similarity", "count_wildcards")

    def index(self, config: DPParserConfig, numeric: list[bool]) -> Index:
        return LengthIndex()

    def matching(self, config: DPParserConfig) -> tuple[bool, bool]:
        return config.count_wildcards, False

    @classmethod
    def reference(
        cls, stream: Stream, config: DPParserConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        return trace_parse(stream, reference_parse(stream.lines or (), config)[1])


class LengthIndex:
    """One leaf for each length of line."""

    def __init__(self) -> None:
        self._leaves: dict[int, Leaf] = {}

    def find(self, line: Ints) -> Leaf | None:
        return self._leaves.get(len(line))

    def place(self, line: Ints) -> Leaf:
        return self._leaves.setdefault(len(line), Leaf(len(line)))

    def leaves(self) -> Iterator[Leaf]:
        yield from self._leaves.values()

    def own_bytes(self, word_bytes: Ints) -> int:
        """None: a template's length tells which leaf it is in."""
        return 0


def reference_parse(lines: tuple[tuple[str, ...], ...], config: DPParserConfig) -> tuple[list[list[str]], list[int]]:
    """The same rule as a plain loop: templates in order of opening, and the template of each line."""
    templates: list[list[str]] = []
    groups: list[int] = []
    for line in lines:
        best, most = -1, -1.0
        for slot, template in enumerate(templates):
            if len(template) == len(line):
                shared = 0
                for held, word in zip(template, line, strict=True):
                    shared += config.count_wildcards if held == WILDCARD_WORD else held == word
                similarity = shared / len(line) if line else 1.0
                if similarity > most:
                    best, most = slot, similarity
        if most >= config.similarity:
            pairs = zip(templates[best], line, strict=True)
            templates[best] = [held if held == word else WILDCARD_WORD for held, word in pairs]
        else:
            best = len(templates)
            templates.append(list(line))
        groups.append(best)
    return templates, groups
