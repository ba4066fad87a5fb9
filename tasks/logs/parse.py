"""From a log file to its templates and assignments as CSV, in memory that grows with the templates alone."""

from __future__ import annotations

import csv
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from models.log_masks import masker
from models.log_parsing import LogParser, LogParserConfig
from models.log_templates import WILDCARD, WILDCARD_WORD
from models.mechanism import MECHANISMS
from models.stream import Ints
from tasks.logs.rows import rows
from tasks.logs.scan import Bytes, LineReader
from tasks.logs.source import STDIN, LogError, Source, opened

logger = logging.getLogger(__name__)

MANY_TEMPLATES = 10_000
MANY = (
    "%s has more than %d templates in its first %d lines: new lines are compared with many of them, which takes ever "
    "longer; a header may be left out (--skip-fields, --format), more masked (--mask), or --similarity lowered"
)

TEMPLATES_FILE, ASSIGNMENTS_FILE = "templates.csv", "assignments.csv"
TEMPLATE_COLUMNS = ("template_id", "template", "lines", "first_line")
ASSIGNMENT_COLUMNS = ("line", "template_id", "parameters")


@dataclass(frozen=True)
class ParsedLog:
    """What was found, where it was written, and the seconds taken: by parsing alone, and with writing.

    replaced, unmatched: lines, as `Source` counts them
    """

    lines: int
    templates: int
    replaced: int
    unmatched: int
    parse_seconds: float
    seconds: float
    files: tuple[Path, Path]

    @property
    def lines_per_second(self) -> float:
        """Lines a second, writing included."""
        return self.lines / self.seconds


def parse_log(
    path: Path, out: Path, config: LogParserConfig, skip: int = 0, pattern: re.Pattern[str] | None = None
) -> ParsedLog:
    """Write the templates of the log `path` (`-`: standard input) and each line's assignment to folder `out`.

    A line is what matches `pattern`'s group `content`, without its first `skip` words. Assignments have the words that
    stand where the template, as it is in the end, has a wildcard or a mark: the log is read twice for that, and numbers
    of templates wait in a temporary file. Raises LogError for a log that cannot be read, or has no lines.
    """
    began = time.perf_counter()
    name = "standard input" if path == STDIN else str(path)
    files = out / TEMPLATES_FILE, out / ASSIGNMENTS_FILE
    with opened(path) as file, tempfile.TemporaryFile(dir=out) as kept:
        source = Source(file, name, pattern)
        log = TemplateLog(config, skip)
        TemplateLog(config, skip).read(np.frombuffer(b"\n", dtype=np.uint8))  # what is compiled must be there first
        parse_began = time.perf_counter()
        for block in source.blocks():
            few = len(log.texts) <= MANY_TEMPLATES
            kept.write(log.read(np.frombuffer(block, dtype=np.uint8)).astype(np.int32).tobytes())
            if few and len(log.texts) > MANY_TEMPLATES:
                logger.warning(MANY, name, MANY_TEMPLATES, log.lines)
        parse_seconds = time.perf_counter() - parse_began
        if not log.lines:
            raise LogError(f"{name} has no lines")
        if source.unmatched == log.lines:
            first = log.texts[0].decode().strip()[:80]
            raise LogError(f"{name}: --format matches none of {log.lines:,} lines; the first is `{first}`")
        replaced, unmatched = source.replaced, source.unmatched
        _write(files[0], log.write_templates)
        kept.seek(0)
        _write(files[1], lambda target: log.write_assignments(source, kept, target))
    seconds = time.perf_counter() - began
    return ParsedLog(log.lines, len(log.texts), replaced, unmatched, parse_seconds, seconds, files)


def _write(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Let `write` fill `path`, which is there only when it is complete."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as target:
            write(target)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


class TemplateLog:
    """Templates of a log, with the text of the first line of each and the lines it has."""

    def __init__(self, config: LogParserConfig, skip: int) -> None:
        implementation = MECHANISMS.implementation(config.name)
        assert issubclass(implementation, LogParser)
        self.skip = skip
        self.reader = LineReader(implementation([config]).rules(config), config.masks, skip)
        self.mask = masker(config.masks)
        self.texts: list[bytes] = []
        self.first: list[int] = []
        self.counts = np.zeros(0, dtype=np.int64)
        self.lines = 0

    def read(self, text: Bytes) -> Ints:
        """The template of each line of `text`, which is taken in."""
        groups, begins = self.reader.read(text)
        known = len(self.texts)
        if len(self.reader.parser) > known:
            # Templates are numbered as they open.
            for t in np.flatnonzero(np.diff(np.maximum.accumulate(np.concatenate([[known - 1], groups])))).tolist():
                begin = int(begins[t])
                end = int(begins[t + 1]) if t + 1 < len(begins) else len(text)
                self.texts.append(text[begin:end].tobytes())
                self.first.append(self.lines + t + 1)
        counts = np.bincount(groups, minlength=len(self.texts))
        counts[: len(self.counts)] += self.counts
        self.counts = counts
        self.lines += len(groups)
        return groups

    def words(self, slot: int) -> list[tuple[str, bool]]:
        """Words of a template, each with whether lines have a word of their own there."""
        held = self.reader.parser.template(slot).tolist()
        words = [word.decode() for word in self.texts[slot].split()[self.skip :]]
        marked = [(self.mask(word), word) for word in words]
        return [
            (WILDCARD_WORD, True) if number == WILDCARD else (text, text != word)
            for number, (text, word) in zip(held, marked, strict=True)
        ]

    def write_templates(self, target: IO[bytes]) -> None:
        """Write a row for each template, in order of opening."""
        lines = csv.writer(_Encoded(target), lineterminator="\n")
        lines.writerow(TEMPLATE_COLUMNS)
        for slot, (count, first) in enumerate(zip(self.counts.tolist(), self.first, strict=True)):
            lines.writerow([slot + 1, " ".join(text for text, _ in self.words(slot)), count, first])

    def write_assignments(self, source: Source, kept: IO[bytes], target: IO[bytes]) -> None:
        """Write a row for each line of `source`; kept: the lines' templates, as 32-bit numbers."""
        is_open = np.array([own for slot in range(len(self.texts)) for _, own in self.words(slot)], dtype=np.uint8)
        templates = self.reader.parser.tables.templates
        target.write((",".join(ASSIGNMENT_COLUMNS) + "\n").encode())
        done = 0
        for block in source.blocks():
            text = block[: _end_of_line(block, self.lines - done)]
            count = text.count(b"\n")
            groups = np.frombuffer(kept.read(4 * count), dtype=np.int32).astype(np.int64)
            made = rows(np.frombuffer(text, dtype=np.uint8), self.skip, groups, done + 1, templates, is_open)
            target.write(made.tobytes())
            done += count
        if done < self.lines:
            raise LogError(f"{source.name} has become shorter while it was read")


def _end_of_line(block: bytes, lines: int) -> int:
    """Where the first `lines` lines of `block` end: a log may have grown since it was first read."""
    if block.count(b"\n") <= lines:
        return len(block)
    end = 0
    for _ in range(lines):
        end = block.index(b"\n", end) + 1
    return end


class _Encoded:
    """Takes text for a file of bytes."""

    def __init__(self, target: IO[bytes]) -> None:
        self.target = target

    def write(self, text: str) -> None:
        """Write `text` in UTF-8."""
        self.target.write(text.encode())
