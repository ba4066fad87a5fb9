"""The end of a sweep's log, read backwards: a page asks for it every few seconds, however long the log has become."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from orchestrator.logs import CHUNK_BYTES, Entry, older_log

MOST_READ_BYTES = 16 * 2**20
"""How far back entries are looked for."""


def last_entries(path: Path, most: int, levels: Sequence[str] = ()) -> list[Entry]:
    """The last `most` entries of the log at `path`, and of the one before it, oldest first; of `levels` only, if given.

    Empty where there is none. Lines torn by a kill are passed over.
    """
    marks = [f'"{level}"'.encode() for level in levels]
    found: list[Entry] = []
    for line in _lines_backwards((path, older_log(path)), MOST_READ_BYTES):
        if len(found) == most:
            break
        if marks and not any(mark in line for mark in marks):  # parsing them all would take long
            continue
        with suppress(ValueError):
            entry = json.loads(line)
            if not levels or entry.get("level") in levels:
                found.append(entry)
    return found[::-1]


def _lines_backwards(paths: Sequence[Path], budget: int) -> Iterator[bytes]:
    """Whole lines of files, the last of the first one first; what lies further back than `budget` bytes is left out."""
    for path in paths:
        try:
            file = path.open("rb")
        except FileNotFoundError:
            continue
        with file:
            end = file.seek(0, 2)
            rest = b""
            while end > 0 and budget > 0:
                begin = max(0, end - CHUNK_BYTES)
                file.seek(begin)
                rest, *lines = (file.read(end - begin) + rest).split(b"\n")
                budget -= end - begin
                end = begin
                yield from (line for line in reversed(lines) if line)
            if end == 0 and rest:
                yield rest
