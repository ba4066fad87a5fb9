"""Files of text that users have: what they hold, piece by piece, and which of it is held out of training."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

from tasks.corpora import CorpusError, open_content
from tasks.download import file_sha256

SUFFIXES = (".txt", ".jsonl")
"""Forms of text, by the end of a file's name; `.gz` may follow."""

PIECE_CHARACTERS = 1 << 16
"""Least length of pieces of a .txt: a tokenizer joins nothing across their borders."""


@dataclass(frozen=True)
class Piece:
    """Part of a document, or all of it.

    held_out  whether it is for evaluation alone
    ends      whether it is its document's last
    """

    text: str
    held_out: bool
    ends: bool


def form_of(path: Path) -> str | None:
    """`.txt` or `.jsonl`; None for other names."""
    name = path.name.removesuffix(".gz")
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


def current_sha256(path: Path) -> str:
    """SHA-256 of the file at `path` as it is now, packed or not. Raises OSError."""
    about = path.stat()
    return _sha256(path, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)
def _sha256(path: Path, _size: int, _changed: int) -> str:
    """The same, computed once while neither size nor time of change is another one."""
    return file_sha256(path)


def pieces(path: Path, share: Fraction) -> Iterator[Piece]:
    """The text of `path`, of which `share` is held out: the end of a .txt, one record in 1 / share of a .jsonl.

    A .txt is two documents, cut where a line begins, or inside a line that is longer than what is held out. Of a .jsonl
    every line that is not blank is a document: an object with a "text", or with "conversations" whose contents are
    joined. Raises CorpusError with the number of a line that is not. A byte-order mark at the front is no text.
    """
    try:
        yield from _records(path, share) if form_of(path) == ".jsonl" else _prose(path, share)
    except (OSError, EOFError, zlib.error) as error:
        raise CorpusError(f"cannot read {path}: {error}") from error


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their ends, numbered from 1."""
    with open_content(path) as content:
        for number, line in enumerate(content, 1):
            try:
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise CorpusError(f"{path}, line {number}: not UTF-8 ({error.reason}); convert the file") from error


def _records(path: Path, share: Fraction) -> Iterator[Piece]:
    records = ((number, line) for number, line in _lines(path) if line.strip())
    for count, (number, line) in enumerate(records, 1):
        held_out = count * share // 1 > (count - 1) * share // 1
        yield Piece(_record_text(path, number, line), held_out, ends=True)


def _record_text(path: Path, number: int, line: str) -> str:
    try:
        record = json.loads(line.rstrip("\r\n"))
    except json.JSONDecodeError as error:
        raise CorpusError(f"{path}, line {number}: not JSON at character {error.colno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{path}, line {number}: JSON that cannot be read: {error}") from error
    fields = record if isinstance(record, dict) else {}
    text, turns = fields.get("text"), fields.get("conversations")
    if isinstance(text, str):
        return _checked(path, number, text)
    if isinstance(turns, list) and all(isinstance(turn, dict) for turn in turns):
        contents = [turn.get("content") for turn in turns]
        if all(isinstance(content, str) for content in contents):
            return _checked(path, number, "\n".join(contents))
    raise CorpusError(
        f'{path}, line {number}: no "text" that is a string, and no "conversations" with a "content" each; '
        'every line must be like {"text": "..."}'
    )


def _checked(path: Path, number: int, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        lone = ascii(text[error.start])[1:-1]
        raise CorpusError(
            f"{path}, line {number}: the text has half a character, `{lone}`, at character {error.start + 1}: write "
            "both halves, or none"
        ) from error
    return text


def _prose(path: Path, share: Fraction) -> Iterator[Piece]:
    total = _content_bytes(path)
    trained_bytes = total * (1 - share)
    text: list[str] = []
    read = since_last = 0
    held_out = False
    for _, line in _lines(path):
        size, ahead, rest = len(line.encode()), max(0, math.ceil(trained_bytes - read)), line
        if not held_out and size > ahead and (ahead == 0 or size > total - trained_bytes):
            first, rest = _cut(line, ahead)
            yield Piece("".join([*text, first]), held_out, ends=True)
            text, since_last, held_out = [], 0, True
        elif since_last >= PIECE_CHARACTERS:
            yield Piece("".join(text), held_out, ends=False)
            text, since_last = [], 0
        text.append(rest)
        read += size
        since_last += len(rest)
    yield Piece("".join(text), held_out, ends=True)


def _cut(line: str, size: int) -> tuple[str, str]:
    """The first `size` bytes of `line`, but no part of a character, and the rest."""
    first = line.encode()[:size].decode(errors="ignore")
    return first, line[len(first) :]


def _content_bytes(path: Path) -> int:
    """Bytes of a file, unpacked."""
    with open_content(path) as content:
        return sum(len(chunk) for chunk in iter(lambda: content.read(1 << 20), b""))
