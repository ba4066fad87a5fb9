"""A log parser that opens templates by novelty, as the Dirichlet-process cache opens slots."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.log_parsing import LogParser, LogParserConfig, masked, trace_parse
from models.log_templates import WILDCARD_WORD, Rules
from models.mechanism import Trace, mechanism
from models.stream import Stream


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

    def rules(self, config: DPParserConfig) -> Rules:
        return Rules(config.similarity, 0, config.count_wildcards, False)

    @classmethod
    def reference(
        cls, stream: Stream, config: DPParserConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        return trace_parse(stream, reference_parse(stream.lines or (), config)[1])


def reference_parse(lines: tuple[tuple[str, ...], ...], config: DPParserConfig) -> tuple[list[list[str]], list[int]]:
    """The same rule as a plain loop: templates in order of opening, and the template of each line."""
    templates: list[list[str]] = []
    groups: list[int] = []
    for line in masked(lines, config):
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
