"""A sweep's log page by page, for readers that come back: each line once, however often the log is rotated meanwhile.

A position names a file by its first line, which tells it from the others wherever it has been moved, and how far it has
been read.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from orchestrator.logs import older_log

BEGINNING = ""


@dataclass(frozen=True)
class LogPage:
    """Whole lines, each a JSON object with its line break, and the position after them."""

    lines: list[bytes]
    position: str


def page_after(path: Path, position: str, most: int) -> LogPage:
    """Lines of the log at `path` after `position` (one that is not known: from the oldest on), about `most` bytes."""
    with ExitStack() as stack:
        files = _files(path, stack)
        named, _, offset = position.partition(":")
        known = [index for index, (name, _) in enumerate(files) if name == named and offset.isdecimal()]
        first = known[0] if known else 0
        lines: list[bytes] = []
        size = 0
        for index in range(first, len(files)):
            name, file = files[index]
            at = int(offset[:20]) if known and index == first else 0
            for line in _lines(file, at):
                at += len(line)
                size += len(line)
                position = f"{name}:{at}"
                if _is_entry(line):
                    lines.append(line)
                if size >= most:
                    return LogPage(lines, position)
        return LogPage(lines, position)


def last_lines(path: Path, count: int) -> LogPage:
    """The last `count` lines of the log at `path`."""
    last: deque[bytes] = deque(maxlen=count)
    position = BEGINNING
    with ExitStack() as stack:
        for name, file in _files(path, stack):
            at = 0
            for line in _lines(file, 0):
                at += len(line)
                last.append(line)
            position = f"{name}:{at}"
    return LogPage([line for line in last if _is_entry(line)], position)


def _files(path: Path, stack: ExitStack) -> list[tuple[str, BinaryIO]]:
    """The files of the log that have a line, the older first, each with its name: see above."""
    found: dict[str, BinaryIO] = {}
    for each in (path, older_log(path)):  # in this order: a rotation in between shows one file twice rather than none
        try:
            file = stack.enter_context(each.open("rb"))
        except FileNotFoundError:
            continue
        first = file.readline()
        if first.endswith(b"\n"):
            found.setdefault(hashlib.sha256(first).hexdigest()[:16], file)
    return list(found.items())[::-1]


def _lines(file: BinaryIO, at: int) -> Iterator[bytes]:
    """Whole lines from `at` on."""
    file.seek(at)
    for line in file:
        if not line.endswith(b"\n"):
            return
        yield line


def _is_entry(line: bytes) -> bool:
    """Whether the line is whole: a kill may have torn it."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
