"""From rows of a table to occurrences of items: numbered, in order, and no more of them in memory than are read."""

from __future__ import annotations

import hashlib
import logging
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

import numpy as np

from models.config import canonical_json
from models.stream import Ints
from tasks.corpora import LOCK_SECONDS, data_cache
from tasks.tables.columns import Batch, Table, TableError, Wanted
from tasks.tables.order import rising

log = logging.getLogger(__name__)

FORMAT = 2
"""Of what is kept: a number that whoever changes how rows become occurrences must raise."""

MOST_CLASSES = 10_000
"""Distinct values that may be classes of their own."""

MOST_SORTED = 1 << 26
"""Rows that are sorted at most, as their places are held in memory: 2.2 GB."""

Numbers = np.ndarray
"""Whole numbers of 32 bits [L]; on disk, and read as they are needed, where there are many."""


class Marks(Protocol):
    """What stands for an item, whose name it is given."""

    def mark(self, name: str) -> int:
        """A number from which the item's vector follows. Raises KeyError where it has none."""


def bytes_of(name: str) -> bytes:
    """What is hashed of a name: UTF-8, also of lone surrogates, which some encodings let through."""
    return name.encode("utf-8", "surrogatepass")


class Hashed:
    """Any item has a vector, drawn from a hash of its name."""

    def mark(self, name: str) -> int:
        return int.from_bytes(hashlib.blake2b(bytes_of(name), digest_size=8).digest(), "little", signed=True)


class Listed:
    """Items that a file of vectors names; a mark is the row of its vector."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        self._rows = rows

    def mark(self, name: str) -> int:
        return self._rows[name]


@dataclass(frozen=True)
class Labels:
    """How values become classes: each distinct one its own, or by CRC-32 modulo `classes`."""

    classes: int | None


@dataclass(frozen=True)
class Occurrences:
    """Occurrences of items in the order of the stream.

    items    [L]  number of each occurrence's item, by first occurrence in the file
    values   [L]  class of each occurrence
    marks    [K]  what each item's vector follows from
    classes       classes there are
    """

    items: Numbers
    values: Numbers
    marks: Ints
    classes: int

    def __len__(self) -> int:
        return len(self.items)

    def parts(self, size: int) -> Iterator[tuple[Ints, Ints]]:
        """Items and values [n] of some occurrences after the other."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            yield self.items[part].astype(np.int64), self.values[part].astype(np.int64)


def occurrences(
    table: Table,
    wanted: Wanted,
    labels: Labels,
    most: int | None,
    marks: Marks,
    kept: Sequence[object] | None,
) -> Occurrences:
    """What the rows of `table`, the first `most` of them, say. Raises TableError.

    kept: what they follow from, as a JSON tree, where they are many: then they are made once, and kept in the data
    cache. None: they are held in memory.
    """
    if kept is None:
        with tempfile.TemporaryDirectory() as scratch:
            _write(table, wanted, labels, most, marks, Path(scratch))
            return _read(Path(scratch), mapped=False)
    return _kept(lambda folder: _write(table, wanted, labels, most, marks, folder), kept)


def _kept(write: Callable[[Path], None], made_of: Sequence[object]) -> Occurrences:
    from filelock import FileLock, Timeout

    key = hashlib.sha256(canonical_json([FORMAT, *made_of]).encode()).hexdigest()[:32]
    folder = data_cache() / "occurrences" / key
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{key}.lock"), timeout=LOCK_SECONDS):
            if not folder.is_dir():
                log.warning("reading a long table, which takes a while, once: its rows are kept in %s", folder)
                with tempfile.TemporaryDirectory(prefix=f".{key}-", dir=folder.parent) as scratch:
                    whole = Path(scratch) / key
                    whole.mkdir()
                    write(whole)
                    whole.rename(folder)
        return _read(folder, mapped=True)
    except Timeout as error:
        raise TableError(f"another process has been reading the same table for {LOCK_SECONDS:.0f} s") from error
    except OSError as error:
        raise TableError(f"cannot keep the rows of a table in {folder}: {error}; set SLOTSWEEP_HOME") from error


def _read(folder: Path, *, mapped: bool) -> Occurrences:
    def column(name: str) -> Numbers:
        path = folder / name
        return np.memmap(path, np.int32, mode="r") if mapped else np.fromfile(path, np.int32)

    classes = int((folder / "classes").read_text())
    return Occurrences(column("items"), column("values"), np.fromfile(folder / "marks", np.int64), classes)


def _write(table: Table, wanted: Wanted, labels: Labels, most: int | None, marks: Marks, folder: Path) -> None:
    """The rows into files in `folder`, as they come; then in order, if they are not."""
    items, classes = _Items(table, wanted, marks), _Classes(table, wanted, labels)
    last, in_order = np.full((1, 2), -np.inf), True
    with (
        (folder / "items").open("wb") as to_items,
        (folder / "values").open("wb") as to_values,
        (folder / "order").open("wb") as to_order,
    ):
        for batch in table.batches(wanted, most):
            to_items.write(items.numbers(batch).tobytes())
            to_values.write(classes.numbers(batch).tobytes())
            if batch.order is not None:
                to_order.write(batch.order.tobytes())
                in_order = in_order and rising(batch.order, last)
                last = batch.order[-1:]
    if not items.marks:
        raise TableError(f"{table.path} has no rows: there is nothing under the names of its columns")
    np.array(items.marks, dtype=np.int64).tofile(folder / "marks")
    (folder / "classes").write_text(str(classes.count))
    if not in_order:
        _sort(folder)
    with suppress(OSError):
        (folder / "order").unlink()


def _sort(folder: Path) -> None:
    """Put rows in their order; rows of one place stay as they stood."""
    places = np.fromfile(folder / "order", np.float64).reshape(-1, 2)
    if len(places) > MOST_SORTED:
        raise TableError(
            f"{len(places):,} rows are not in the order that their column says, and at most {MOST_SORTED:,} are sorted "
            "here: sort the file by it"
        )
    order = np.lexsort((places[:, 1], places[:, 0]))
    del places
    for name in ("items", "values"):
        column = np.fromfile(folder / name, np.int32)
        column[order].tofile(folder / name)


class _Items:
    """Numbers of items by name: bounded by the distinct ones, not by rows."""

    def __init__(self, table: Table, wanted: Wanted, marks: Marks) -> None:
        self._table, self._column, self._marks = table, wanted.keys[0], marks
        self._numbers: dict[str, int] = {}
        self.marks: list[int] = []

    def numbers(self, batch: Batch) -> Numbers:
        """Numbers [n] of the items of these rows."""
        known = self._numbers
        for name in dict.fromkeys(batch.items):
            if name not in known:
                try:
                    self.marks.append(self._marks.mark(name))
                except KeyError:
                    place = self._table.place(batch.first + batch.items.index(name), self._column)
                    raise TableError(f"{place}: `{name[:60]}` has no vector in the file of `embeddings`") from None
                known[name] = len(known)
        return np.array([known[name] for name in batch.items], dtype=np.int32)


class _Classes:
    """Classes of values."""

    def __init__(self, table: Table, wanted: Wanted, labels: Labels) -> None:
        self._table, self._column, self._labels = table, wanted.value, labels
        self._numbers: dict[str, int] = {}

    @property
    def count(self) -> int:
        """Classes there are."""
        return self._labels.classes or len(self._numbers)

    def numbers(self, batch: Batch) -> Numbers:
        """Classes [n] of the values of these rows, or of their items where no column has values."""
        names = batch.items if batch.values is None else batch.values
        known = self._numbers
        if self._labels.classes is not None:
            if len(known) > MOST_CLASSES:
                known.clear()  # hashes need not be remembered
            for name in dict.fromkeys(names):
                known[name] = zlib.crc32(bytes_of(name)) % self._labels.classes
        else:
            number = count(len(known))
            for name in dict.fromkeys(names):
                if name not in known:
                    known[name] = next(number)
            if len(known) > MOST_CLASSES:
                place = self._table.place(batch.first + len(batch.items) - 1, self._column or "")
                raise TableError(
                    f"{place}: by here there are more than {MOST_CLASSES:,} distinct values; give a number of "
                    "`classes`, into which they are hashed"
                )
        return np.array([known[name] for name in names], dtype=np.int32)


def answers_of(found: Occurrences, kind: str) -> Ints:
    """The right class [K] of each item: the one that it came with `first`, or `last`."""
    answers = np.full(len(found.marks), -1, dtype=np.int64)
    for items, values in found.parts(1 << 20):
        if kind == "last":
            answers[items] = values  # of several for one item the last stays
        else:
            _, first = np.unique(items, return_index=True)
            fresh = first[answers[items[first]] < 0]
            answers[items[fresh]] = values[fresh]
    return answers
