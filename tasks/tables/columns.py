"""Columns of a table: what a reader of any form of table gives, and how a wrong name is told."""

from __future__ import annotations

import codecs
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import AfterValidator

from models.stream import Floats
from tasks.corpora import CorpusError

BATCH_ROWS = 1 << 15
"""Rows that are read at once."""

NAMES_SHOWN = 20


def _known_encoding(name: str) -> str:
    try:
        "".encode(name)
        return codecs.lookup(name).name
    except (LookupError, UnicodeError):
        raise ValueError(f"`{name}` is no encoding of text, such as utf-8, utf-16 or latin-1") from None


Encoding = Annotated[str, AfterValidator(_known_encoding)]
"""An encoding of text that Python knows, by the name that Python has for it."""


class TableError(CorpusError):
    """A table that cannot be read; the message names the file, the place in it, and what to do."""


def state_of(path: str) -> tuple[int, int]:
    """What changes when a file does. Raises TableError where there is none."""
    try:
        about = Path(path).stat()
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}") from error
    return about.st_size, about.st_mtime_ns


@dataclass(frozen=True)
class Wanted:
    """Which columns are read: those that name a row's item, its value and its place in the order, where it has one."""

    keys: tuple[str, ...]
    value: str | None
    order: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.keys, *(one for one in (self.value, self.order) if one is not None))))


@dataclass(frozen=True)
class Batch:
    """Rows that follow each other.

    first   index of the first of them, from 0, among the rows of the table
    items   name of each row's item
    values  each row's value; None where no column has them
    order   each row's place in the order, a pair of doubles [n, 2] (see `tasks.tables.order`); None: as they stand
    """

    first: int
    items: list[str]
    values: list[str] | None
    order: Floats | None


class Table(Protocol):
    """A table that is read some rows at a time."""

    @property
    def path(self) -> str:
        """The file."""

    def check(self, wanted: Wanted) -> None:
        """Raises TableError unless all that is wanted is there. Reads no rows."""

    def batches(self, wanted: Wanted, most: int | None) -> Iterator[Batch]:
        """The rows, or the first `most`. Raises TableError with row and column."""

    def place(self, row: int, column: str) -> str:
        """How people find the cell of `column` in the row of this index: with the path in front."""


def check_columns(path: str, names: Sequence[str], wanted: Wanted) -> None:
    """Raises TableError unless a table with columns `names` has those that are wanted, each once."""
    for name in wanted.names:
        if name not in names:
            asked = visible(name)
            near = difflib.get_close_matches(name.casefold(), [one.casefold() for one in names], n=1, cutoff=0.5)
            meant = next(
                (f"; did you mean `{visible(one)}`?" for one in names if near and one.casefold() == near[0]), ""
            )
            shown = ", ".join(f"`{visible(one)}`" for one in names[:NAMES_SHOWN]) + (
                ", ..." if len(names) > NAMES_SHOWN else ""
            )
            raise TableError(
                f"{path} has no column `{asked}`{meant} It has {shown}"
                if meant
                else f"{path} has no column `{asked}`: it has {shown}"
            )
        if list(names).count(name) > 1:
            raise TableError(f"{path} has {list(names).count(name)} columns `{name}`: give each a name of its own")


def visible(name: str) -> str:
    """`name` with what nobody sees of it, such as a byte order mark, written out."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in name)


def item_names(columns: Sequence[Sequence[str]]) -> list[str]:
    """Name of each row's item: what its key columns say, apart by a character that text does not have."""
    return list(columns[0]) if len(columns) == 1 else ["\x1f".join(row) for row in zip(*columns, strict=True)]
