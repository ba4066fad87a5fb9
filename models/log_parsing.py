"""Online log parsing as a memory: its slots are templates, and a line that fits none of them opens one."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, TypeVar

import numpy as np
from pydantic import Field

from models.config import MechanismConfig
from models.log_masks import MASKS, Mask, masker
from models.log_templates import WILDCARD_WORD, Rules, Templates
from models.mechanism import ABSTAINED, VALUE_BYTES, Mechanism, Trace, Usage, scored
from models.reference import arrivals
from models.similarity import QueryBlock, Similarities
from models.stream import Floats, Ints, Phase, Stream


class LogParserConfig(MechanismConfig):
    """Options of online log parsers."""

    similarity: float = Field(
        0.5,
        ge=0.0,
        le=1.0,
        description="a line opens a template if it shares less than this fraction of words with all",
    )
    mask_addresses: bool = Field(
        False,
        description="before lines are compared, replace IPv4, IPv6, MAC and hexadecimal (0x) addresses by <address>",
    )
    mask_paths: bool = Field(False, description="replace absolute paths of two parts and more by <path>")
    mask_numbers: bool = Field(False, description="replace numbers that no letter touches by <number>")

    @property
    def masks(self) -> tuple[Mask, ...]:
        """What is masked."""
        return tuple(mask for mask in MASKS if getattr(self, f"mask_{mask}"))


P = TypeVar("P", bound=LogParserConfig)


class LogParser(Mechanism[P]):
    """Slots are templates with the value of their first line. A stream must have `lines`.

    A query names an item, and the parser is given the last line of that item, up to the phase end: it answers the value
    of that line's template. An item never seen is not answered. A slot's bytes are the mean over templates of their
    text, in UTF-8, and the value; `bytes_metadata` is the index's. Reported beside recall, over the lines read:

    grouping_accuracy  fraction of lines whose template has exactly the lines of their item, no more and no fewer
    pair_f1            F1 of pairs of lines: together in a template against together in an item
    templates          templates at the end
    compression        lines per template

    `lines_per_second`, a time, goes beside them.
    """

    compares_tokens: ClassVar[bool] = False
    reads_lines: ClassVar[bool] = True
    own_metrics: ClassVar[tuple[str, ...]] = ("grouping_accuracy", "pair_f1", "templates", "compression")

    @abstractmethod
    def rules(self, config: P) -> Rules:
        """When a line belongs to a template."""

    def index_bytes(self, templates: Templates, word_bytes: Ints) -> int:
        """Bytes of what finds templates, without the templates; word_bytes: bytes of each word by number."""
        return 0

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        """Forget everything. Raises ValueError for a stream without lines."""
        if stream.lines is None:
            raise ValueError(
                f"{self.config.name} reads the words of log lines, and these tokens have none: use a workload of logs, "
                "such as loghub"
            )
        size = len(self)
        self.stream = stream
        self.words = Words(self.config.masks)
        self.parsers = [Templates(self.rules(config)) for config in self.configs]
        self.groups, self.values = np.zeros((2, size, len(stream)), dtype=np.int64)
        self._counts, held = np.zeros((2, size), dtype=np.int64)
        self._usage = Usage(held, self._counts)
        self.read = 0

    def write(self, similarities: Similarities, start: int, stop: int) -> None:
        """Read lines start..stop-1."""
        lines = (self.stream.lines or ())[start:stop]
        words = np.array([number for line in lines for number in self.words.numbers(line)], dtype=np.int64)
        ends = np.cumsum([len(line) for line in lines], dtype=np.int64)
        numeric = np.array(self.words.numeric)[words]
        for c, parser in enumerate(self.parsers):
            groups = self.groups[c, start:stop]
            parser.read(words, ends, numeric, groups)
            # Templates are numbered as they open.
            held = np.maximum.accumulate(np.concatenate([self._counts[c : c + 1], groups + 1]))
            opened = np.flatnonzero(np.diff(held))
            self.values[c, groups[opened]] = self.stream.values[start + opened]
            self._usage.held[c] += held[1:].sum()
            self._counts[c] = len(parser)
        self.read = stop

    def counts(self) -> Ints:
        """Templates [C]."""
        return self._counts

    def usage(self) -> Usage:
        """Templates over the lines read so far; they never become fewer."""
        return self._usage

    def templates(self, c: int) -> list[str]:
        """Text of the templates of config `c`, in order of opening."""
        parser = self.parsers[c]
        return [" ".join(self.words.texts[word] for word in parser.template(slot)) for slot in range(len(parser))]

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
        words = np.array([len(word.encode()) for word in self.words.texts], dtype=np.int64)
        texts = [sum(len(text.encode()) for text in self.templates(c)) for c in range(len(self))]
        owned = [self.index_bytes(parser, words) for parser in self.parsers]
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


class Words:
    """Numbers the words of lines, masked, as they come; number 0 is the wildcard's."""

    def __init__(self, masks: tuple[Mask, ...]) -> None:
        self.texts: list[str] = []
        self.numeric: list[bool] = []
        self._mask = masker(masks)
        self._by_text: dict[str, int] = {}
        self._by_word = {WILDCARD_WORD: self._number(WILDCARD_WORD)}

    def _number(self, word: str) -> int:
        text = self._mask(word)
        if text not in self._by_text:
            self._by_text[text] = len(self.texts)
            self.texts.append(text)
            self.numeric.append(any("0" <= character <= "9" for character in text))
        return self._by_text[text]

    def numbers(self, line: tuple[str, ...]) -> list[int]:
        """The number of each word of `line`."""
        known = self._by_word
        for word in line:
            if word not in known:
                known[word] = self._number(word)
        return [known[word] for word in line]


def masked(lines: tuple[tuple[str, ...], ...], config: LogParserConfig) -> list[tuple[str, ...]]:
    """`lines` with what `config` masks replaced."""
    mask = masker(config.masks)
    return [tuple(mask(word) for word in line) for line in lines]


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
