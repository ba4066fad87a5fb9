"""CSV files, read some rows at a time; what is wrong with one is told once, with line and column."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedReader
from itertools import islice
from pathlib import Path

from tasks.corpora import open_content
from tasks.tables.columns import BATCH_ROWS, Batch, TableError, Wanted, check_columns, item_names, state_of
from tasks.tables.order import Clock

DELIMITERS = ",;\t|"
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
MARK = "\ufeff"
LONGEST_FIELD = 1 << 17
"""Characters of a field at most. What is longer is a quote that nothing closes, or no table."""

FIRST_BYTES = 1 << 16
WIDE = ("utf-16", "utf-32")
FORM_ERRORS = (OSError, EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True)
class CsvTable:
    """The file at `path`, whose first row names its columns; delimiter and encoding are guessed where None.

    Guessed are the delimiter that the first line has most often, of `, ; | and tab`, and the encoding by its mark:
    UTF-8 where there is none. Rows without anything in them are left out.
    """

    path: str
    delimiter: str | None = None
    encoding: str | None = None

    def header(self) -> tuple[str, ...]:
        """Names of the columns. Raises TableError."""
        names = _header(self, *state_of(self.path))
        if not names:
            raise TableError(f"{self.path} is empty: its first row must name the columns")
        return names

    def check(self, wanted: Wanted) -> None:
        check_columns(self.path, self.header(), wanted)

    def batches(self, wanted: Wanted, most: int | None) -> Iterator[Batch]:
        self.check(wanted)
        names = self.header()
        first, clock = 0, Clock()
        with self.rows() as rows:
            next(rows)
            left = iter(rows) if most is None else islice(rows, most)
            while batch := list(islice(left, BATCH_ROWS)):
                self._check_widths(batch, first, names)
                places = {name: names.index(name) for name in wanted.names}
                columns = {name: [row[place] for row in batch] for name, place in places.items()}
                for name in wanted.names:
                    if "" in columns[name]:
                        raise TableError(f"{self.place(first + columns[name].index(''), name)} is empty")
                order = None if wanted.order is None else clock.read(self, wanted.order, columns[wanted.order], first)
                values = None if wanted.value is None else columns[wanted.value]
                yield Batch(first, item_names([columns[name] for name in wanted.keys]), values, order)
                first += len(batch)

    def place(self, row: int, column: str) -> str:
        return f"{self.path}, line {self._line(row)}, column `{column}`"

    def _check_widths(self, batch: list[list[str]], first: int, names: tuple[str, ...]) -> None:
        """Raises TableError where a row has too many cells, or too few."""
        width = len(names)
        if all(len(row) == width for row in batch):
            return
        index = next(index for index, row in enumerate(batch) if len(row) != width)
        found = len(batch[index])
        column = names[found] if found < width else names[-1]
        wrong = f"the row ends before column `{column}`" if found < width else f"more follows column `{column}`"
        raise TableError(
            f"{self.path}, line {self._line(first + index)}: {wrong}: it has {found} cells, and the first row names "
            f"{width} columns"
        )

    def _line(self, row: int) -> int:
        """The line in which the row of this index begins."""
        with self._reader() as reader:
            for seen, _ in enumerate((cells for cells in reader if cells), -1):
                if seen == row:
                    break
            return reader.begins

    @contextmanager
    def rows(self) -> Iterator[Iterator[list[str]]]:
        """Rows that are not empty, the first of them the header."""
        with self._reader() as reader:
            yield (row for row in reader if row)

    @contextmanager
    def _reader(self) -> Iterator[_Reader]:
        """A reader of the file, whose failures are told with their line."""
        csv.field_size_limit(LONGEST_FIELD)
        encoding, delimiter = _form(self, *state_of(self.path))
        reader = None
        try:
            with open_content(Path(self.path)) as content:
                text = io.TextIOWrapper(content, encoding=encoding, newline="")
                reader = _Reader(csv.reader(text, delimiter=delimiter, strict=True))
                yield reader
        except UnicodeError as error:
            raise TableError(self._undecodable(encoding, error)) from error
        except csv.Error as error:
            raise TableError(f"{self.path}, line {1 if reader is None else reader.begins}: {_plain(error)}") from error
        except FORM_ERRORS as error:
            place = self.path if reader is None else f"{self.path} from line {reader.begins} on"
            raise TableError(f"cannot read {place}: {error}") from error

    def _undecodable(self, encoding: str, error: UnicodeError) -> str:
        """What to say of bytes that are no text: with the place of the first of them."""
        reason = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
        cure = "; is that its `encoding`?" if self.encoding else "; give its `encoding`, such as latin-1 or utf-16"
        with open_content(Path(self.path)) as content:
            line, character = _first_unreadable(content, encoding)
        return f"{self.path}, line {line}, character {character}: not {encoding} ({reason}){cure}"


class _Reader:
    """Rows of a CSV, empty ones too; `begins` is the line in which the one that was read last begins."""

    def __init__(self, rows: csv._reader) -> None:  # type: ignore[name-defined]
        self._rows = rows
        self.begins = 1

    def __iter__(self) -> _Reader:
        return self

    def __next__(self) -> list[str]:
        self.begins = self._rows.line_num + 1
        row: list[str] = next(self._rows)
        return row


def _first_unreadable(content: gzip.GzipFile | BufferedReader, encoding: str) -> tuple[int, int]:
    """Line and character, from 1, of the first bytes that are no text."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, character = 1, 1
    for chunk in iter(lambda: content.read(FIRST_BYTES), b""):
        before = decoder.getstate()
        try:
            parts = [decoder.decode(chunk)]
        except UnicodeError:
            decoder.setstate(before)
            parts = list(_until_unreadable(decoder, chunk))
            content.seek(0, io.SEEK_END)
        for text in parts:
            line += text.count("\n")
            character = len(text) - text.rfind("\n") if "\n" in text else character + len(text)
    return line, character


def _until_unreadable(decoder: codecs.IncrementalDecoder, chunk: bytes) -> Iterator[str]:
    with suppress(UnicodeError):
        for place in range(len(chunk)):
            yield decoder.decode(chunk[place : place + 1])


def _plain(error: csv.Error) -> str:
    if "field larger" in str(error):
        return f"a field of more than {LONGEST_FIELD:,} characters; is a quote never closed?"
    return "a quote opens in this row, and the file ends inside it" if "end of data" in str(error) else str(error)


def csv_lines(table: CsvTable) -> int:
    """Lines of the file as it is now, an upper bound of its rows; one pass, remembered. Raises TableError."""
    return _lines(table, *state_of(table.path))


@lru_cache(maxsize=64)
def _lines(table: CsvTable, size: int, changed: int) -> int:
    """As a reader of CSV parts them: a line ends with a newline, a carriage return, or both."""
    encoding, _ = _form(table, size, changed)
    count, last = 0, "\n"
    try:
        with open_content(Path(table.path)) as content:
            for chunk in _texts(content, encoding):
                count += chunk.count("\n") + chunk.count("\r") - chunk.count("\r\n")
                count -= last == "\r" and chunk[0] == "\n"
                last = chunk[-1]
    except FORM_ERRORS as error:
        raise TableError(f"cannot read {table.path}: {error}") from error
    return count + (last not in "\r\n")


def _texts(content: gzip.GzipFile | BufferedReader, encoding: str) -> Iterator[str]:
    """Text whose ends of lines are those of `content`: where bytes tell them, each byte stands for a character."""
    told_by_bytes = "\r\n".encode(encoding).endswith(b"\r\n") and not encoding.startswith(WIDE)
    text = io.TextIOWrapper(content, "latin-1" if told_by_bytes else encoding, "replace", newline="")
    yield from iter(lambda: text.read(1 << 20), "")


@lru_cache(maxsize=64)
def _form(table: CsvTable, _size: int, _changed: int) -> tuple[str, str]:
    """Encoding and delimiter."""
    try:
        with open_content(Path(table.path)) as content:
            start = content.read(FIRST_BYTES)
    except FORM_ERRORS as error:
        raise TableError(f"cannot read {table.path}: {error}") from error
    marked = next((name for mark, name in MARKS if start.startswith(mark)), "utf-8")
    encoding = marked if table.encoding is None or marked.startswith(table.encoding) else table.encoding
    try:
        line = next(iter(start.decode(encoding, errors="replace").splitlines()), "")
    except UnicodeError as error:
        raise TableError(f"{table.path}: not {encoding} ({error}); is that its `encoding`?") from error
    unquoted = "".join(line.split('"')[::2])
    return encoding, table.delimiter or max(DELIMITERS, key=unquoted.count)


@lru_cache(maxsize=64)
def _header(table: CsvTable, _size: int, _changed: int) -> tuple[str, ...]:
    with table.rows() as rows:
        return tuple(name.strip().removeprefix(MARK) for name in next(rows, ()))
