"""Lines of a log as rows of a table: which item each is of, and its words. They are read as `parse-log` reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from models.log_masks import MASKS, masker
from tasks.logs.source import LogError, Source, opened
from tasks.tables.columns import BATCH_ROWS, Batch, TableError, Wanted, state_of

LINE = Wanted(("line",), None, None)
"""The one column that a log has."""


@dataclass(frozen=True)
class LogLines:
    """Lines of the file at `path` that are not blank, without their first `skip` words. A newline ends a line.

    A line's item is what the regular expression `label` finds in it, its first group if it has one; without a `label`
    it is the line itself, numbers, addresses and paths masked. Bytes that are not text become U+FFFD.
    """

    path: str
    encoding: str
    skip: int
    label: str | None

    def check(self, wanted: Wanted) -> None:
        """Any log has lines."""

    def batches(self, wanted: Wanted, most: int | None) -> Iterator[Batch]:
        mask, first, longest = masker(MASKS), 0, 0
        find = None if self.label is None else re.compile(self.label)
        lines = islice(self._lines(), most)
        while part := list(islice(lines, BATCH_ROWS)):
            if find is None:
                words = [line.split() for _, line in part]
                longest = max(longest, *map(len, words))
                items = [mask(b" ".join(line[self.skip :]).decode()) for line in words]
            else:
                items = [self._label(find, number, line) for number, line in part]
            yield Batch(first, items, None, None)
            first += len(part)
        if find is None and 0 < longest <= self.skip:
            raise TableError(f"{self.path}: `skip: {self.skip}` leaves nothing of any line; the longest has {longest}")

    def words(self, most: int | None) -> Iterator[tuple[str, ...]]:
        """Words of each line."""
        for _, line in islice(self._lines(), most):
            yield tuple(word.decode() for word in line.split()[self.skip :])

    def place(self, row: int, column: str) -> str:
        number = next(islice((number for number, _ in self._lines()), row, None), row + 1)
        return f"{self.path}, line {number}"

    def count(self) -> int:
        """Lines of the file as it is now, blank ones too; one pass, remembered. Raises TableError."""
        return _count(self.path, self.encoding, *state_of(self.path))

    def _label(self, find: re.Pattern[str], number: int, line: bytes) -> str:
        text = line.decode().removesuffix("\r")
        found = find.search(text)
        label = "" if found is None else found.group(find.groups)
        if not label:
            raise TableError(f"{self.path}, line {number}: `label` finds nothing in `{text.strip()[:80]}`")
        return label

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        number = 0
        with _read(self.path, self.encoding) as blocks:
            for block in blocks:
                for number, line in enumerate(block.split(b"\n")[:-1], number + 1):  # noqa: B020
                    if line.strip():
                        yield number, line


@contextmanager
def _read(path: str, encoding: str) -> Iterator[Iterator[bytes]]:
    try:
        with opened(Path(path)) as file:
            yield Source(file, path, encoding=encoding).blocks()
    except LogError as error:
        raise TableError(f"cannot read {error}") from error


@lru_cache(maxsize=64)
def _count(path: str, encoding: str, _size: int, _changed: int) -> int:
    with _read(path, encoding) as blocks:
        return sum(block.count(b"\n") for block in blocks)
