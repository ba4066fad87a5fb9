"""Online log parsing as a memory: its slots are templates, and a line that fits none of them opens one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import chain
from typing import ClassVar, Protocol, TypeVar

import numpy as np
from pydantic import Field

from models.config import MechanismConfig
from models.mechanism import ABSTAINED, VALUE_BYTES, Mechanism, Trace, Usage, scored
from models.reference import arrivals
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream

WILDCARD = 0
WILDCARD_WORD = "<*>"
"""Stands in a template where its lines differ. Words are numbered, and this is number 0."""


class LogParserConfig(MechanismConfig):
    """Options of online log parsers."""

    similarity: float = Field(
        0.5,
        ge=0.0,
        le=1.0,
        description="a line opens a template if it shares less than this fraction of words with all",
    )


P = TypeVar("P", bound=LogParserConfig)


class Leaf:
    """Templates of one length, which a line is compared with all at once."""

    def __init__(self, length: int) -> None:
        self._words = np.empty((4, length), dtype=np.int64)
        self.slots: list[int] = []

    @property
    def words(self) -> Ints:
        """Words of the templates [templates, length]."""
        return self._words[: len(self.slots)]

    def add(self, slot: int, line: Ints) -> None:
        """Hold `line` as the template of `slot`."""
        if len(self.slots) == len(self._words):
            self._words = np.concatenate([self._words, np.empty_like(self._words)])
        self._words[len(self.slots)] = line
        self.slots.append(slot)

    def nearest(self, line: Ints, wildcards_match: bool, wildcards_settle: bool) -> tuple[int, float]:
        """Row of the template that shares most words with `line`, and the fraction of words shared (empty lines: 1).

        A wildcard is a shared word if `wildcards_match`. Ties: the template of most wildcards if `wildcards_settle`;
        then the oldest.
        """
        wild = self.words == WILDCARD
        shared = (self.words == line) & ~wild
        matches = np.count_nonzero(shared | wild if wildcards_match else shared, axis=1)
        length = len(line)
        rank = matches * (length + 1) + np.count_nonzero(wild, axis=1) if wildcards_settle else matches
        row = int(rank.argmax())
        return row, float(matches[row]) / length if length else 1.0

    def merge(self, row: int, line: Ints) -> None:
        """Put wildcards where the template at `row` differs from `line`."""
        template = self._words[row]
        template[template != line] = WILDCARD


class Index(Protocol):
    """Says which templates a line is compared with."""

    def find(self, line: Ints) -> Leaf | None:
        """The leaf whose templates `line` is compared with; None if there is none yet."""

    def place(self, line: Ints) -> Leaf:
        """The leaf, made if need be, that a template which starts as `line` goes to."""

    def leaves(self) -> Iterator[Leaf]:
        """All leaves."""

    def own_bytes(self, word_bytes: Ints) -> int:
        """Bytes of the index itself, without its templates; word_bytes: bytes of each word by number."""


class LogParser(Mechanism[P]):
    """Slots are templates with the value of their first line. A stream must have `lines`.

    A query names an item, and the parser is given the last line of that item, up to the phase end: it answers the value
    of that line's template. An item never seen is not answered. A slot's bytes are the mean over templates of their
    text, in UTF-8, and the value; `bytes_metadata` is the index's. Reported beside recall, over the lines read:

    grouping_accuracy  fraction of lines whose template has exactly the lines of their item, no more and no fewer
    pair_f1            F1 of pairs of lines: together in a template against together in an item
    templates          templates at the end
    compression        lines per template
    """

    compares_tokens: ClassVar[bool] = False
    reads_lines: ClassVar[bool] = True
    own_metrics: ClassVar[tuple[str, ...]] = ("grouping_accuracy", "pair_f1", "templates", "compression")

    @abstractmethod
    def index(self, config: P, numeric: list[bool]) -> Index:
        """An empty index; numeric: by number, whether a word has a digit in it."""

    @abstractmethod
    def matching(self, config: P) -> tuple[bool, bool]:
        """(wildcards_match, wildcards_settle) of `Leaf.nearest`."""

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        """Forget everything. Raises ValueError for a stream without lines."""
        if stream.lines is None:
            raise ValueError(
                f"{self.config.name} reads the words of log lines, and these tokens have none: use a workload of logs, "
                "such as loghub"
            )
        size = len(self)
        self.stream = stream
        self.vocabulary = list(dict.fromkeys([WILDCARD_WORD, *chain.from_iterable(stream.lines)]))
        numbers = {word: number for number, word in enumerate(self.vocabulary)}
        self.lines = [np.array([numbers[word] for word in line], dtype=np.int64) for line in stream.lines]
        numeric = [any(character.isdigit() for character in word) for word in self.vocabulary]
        self.indices = [self.index(config, numeric) for config in self.configs]
        self.groups, self.values = np.zeros((2, size, len(stream)), dtype=np.int64)
        self._counts, held = np.zeros((2, size), dtype=np.int64)
        self._usage = Usage(held, self._counts)
        self.read = 0

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        """Read lines start..stop-1."""
        for c, config in enumerate(self.configs):
            for t in range(start, stop):
                self.groups[c, t] = self._take(c, config, t)
                self._usage.held[c] += self._counts[c]
        self.read = stop

    def _take(self, c: int, config: P, t: int) -> int:
        """The template of line `t`, opened or changed as need be."""
        line, index = self.lines[t], self.indices[c]
        leaf = index.find(line)
        if leaf is not None and leaf.slots:
            row, similarity = leaf.nearest(line, *self.matching(config))
            if similarity >= config.similarity:
                leaf.merge(row, line)
                return leaf.slots[row]
        slot = int(self._counts[c])
        index.place(line).add(slot, line)
        self.values[c, slot] = self.stream.values[t]
        self._counts[c] += 1
        return slot

    def counts(self) -> Ints:
        """Templates [C]."""
        return self._counts

    def usage(self) -> Usage:
        """Templates over the lines read so far; they never become fewer."""
        return self._usage

    def templates(self, c: int) -> list[str]:
        """Text of the templates of config `c`, in order of opening."""
        found = {
            slot: " ".join(self.vocabulary[word] for word in words)
            for leaf in self.indices[c].leaves()
            for slot, words in zip(leaf.slots, leaf.words, strict=True)
        }
        return [found[slot] for slot in range(len(found))]

    def answer(self, block: QueryBlock, phase: Phase) -> Floats:
        """1 where the value of the line's template is right, 0 where it is wrong, NaN for an item never seen [C, Q]."""
        last = {item: t for t, item in enumerate(self.stream.items[: phase.end].tolist())}
        asked = phase.items[block.start : block.start + len(block)]
        lines = np.array([last.get(item, -1) for item in asked.tolist()], dtype=np.int64)
        slots = self.groups[:, lines]
        predicted = np.where(lines < 0, ABSTAINED, np.take_along_axis(self.values, slots, axis=1))
        return scored(predicted, block, phase)

    def bytes_per_slot(self, dim: int, key_bytes: int) -> tuple[Floats, Floats]:
        """Mean bytes of a template and its value, and its share of the index [C]."""
        words = np.array([len(word.encode()) for word in self.vocabulary], dtype=np.int64)
        texts = [sum(len(text.encode()) for text in self.templates(c)) for c in range(len(self))]
        owned = [index.own_bytes(words) for index in self.indices]
        slots = np.maximum(self._counts, 1)
        return np.array(texts) / slots + VALUE_BYTES, np.array(owned) / slots

    def extras(self) -> dict[str, Floats]:
        """How well templates and items agree, by name [C]."""
        items = self.stream.items[: self.read]
        agreed = [agreement(groups, items) for groups in self.groups[:, : self.read]]
        accuracy, f1 = np.array(agreed).T
        templates = self._counts.astype(np.float64)
        return {
            "grouping_accuracy": accuracy,
            "pair_f1": f1,
            "templates": templates,
            "compression": self.read / templates,
        }


def agreement(groups: Ints, items: Ints) -> tuple[float, float]:
    """(grouping accuracy, F1 of pairs) of predicted `groups` [n] against the true `items` [n].

    Accuracy is the fraction of lines whose group is exactly their item's set of lines: one wrong line makes all lines
    of two sets wrong (Zhu et al., arXiv 1811.03509, Sec. III-B). Without pairs on either side F1 is 1.
    """
    _, group, in_group = np.unique(groups, return_inverse=True, return_counts=True)
    _, item, in_item = np.unique(items, return_inverse=True, return_counts=True)
    _, both, in_both = np.unique(group * len(in_item) + item, return_inverse=True, return_counts=True)
    exact = (in_group[group] == in_both[both]) & (in_item[item] == in_both[both])
    shared, predicted, true = (int((n * (n - 1)).sum()) for n in (in_both, in_group, in_item))
    return float(exact.mean()), 2.0 * shared / (predicted + true) if predicted + true else 1.0


def trace_parse(stream: Stream, groups: list[int]) -> Trace:
    """What a reference did that put each line into the template numbered in `groups`: a slot holds its first line."""
    trace = Trace()
    first: dict[int, int] = {}
    for t, phase_ends in arrivals(stream):
        first.setdefault(groups[t], t)
        trace.count(len(first))
        if phase_ends:
            trace.record(first.values(), stream)
    return trace
