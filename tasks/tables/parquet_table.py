"""Parquet files, read row group by row group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tasks.tables.columns import BATCH_ROWS, Batch, TableError, Wanted, check_columns, item_names, state_of
from tasks.tables.order import Clock, Places, places_of_doubles, places_of_integers


@dataclass(frozen=True)
class ParquetTable:
    """The file at `path`: flat columns of text, numbers, booleans, dates and times."""

    path: str

    def check(self, wanted: Wanted) -> None:
        check_columns(self.path, _about(self.path, *state_of(self.path))[0], wanted)

    def rows(self) -> int:
        """Rows of the table."""
        return _about(self.path, *state_of(self.path))[1]

    def batches(self, wanted: Wanted, most: int | None) -> Iterator[Batch]:
        self.check(wanted)
        from pyarrow import ArrowException

        first, clock = 0, Clock()
        try:
            for found in _opened(self.path).iter_batches(BATCH_ROWS, columns=list(wanted.names)):
                part = found if most is None else found[: most - first]
                if part.num_rows == 0:
                    return
                yield self._batch(part, wanted, first, clock)
                first += part.num_rows
        except (ArrowException, OSError) as error:
            raise TableError(f"cannot read {self.path} from row {first + 1:,} on: {error}") from error

    def place(self, row: int, column: str) -> str:
        return f"{self.path}, row {row + 1}, column `{column}`"

    def _batch(self, part: Any, wanted: Wanted, first: int, clock: Clock) -> Batch:
        keys = [self._texts(part, name, first) for name in wanted.keys]
        values = None if wanted.value is None else self._texts(part, wanted.value, first)
        order = None if wanted.order is None else self._places(part, wanted.order, first, clock)
        return Batch(first, item_names(keys), values, order)

    def _texts(self, part: Any, name: str, first: int) -> list[str]:
        """Cells as text. Raises TableError where one says nothing, or where a column is of nested values."""
        import pyarrow as pa

        column = _plain(part.column(name))
        try:
            cells: list[str | None] = column.cast(pa.string()).to_pylist()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            self._check_text(column, name, first)
            raise TableError(
                f"{self.path}: column `{name}` is {column.type}, where text, numbers, dates or times are needed"
            ) from error
        for row, cell in enumerate(cells):
            if not cell or (cell == "nan" and pa.types.is_floating(column.type)):
                said = "null" if cell is None else "not a number" if cell else "empty"
                raise TableError(f"{self.place(first + row, name)} is {said}")
        return [cell for cell in cells if cell is not None]

    def _check_text(self, column: Any, name: str, first: int) -> None:
        """Raises TableError where a cell has bytes that are no text."""
        for row, cell in enumerate(column.to_pylist()):
            try:
                if isinstance(cell, bytes):
                    cell.decode()
            except UnicodeDecodeError as error:
                raise TableError(f"{self.place(first + row, name)} is not utf-8 ({error.reason})") from error

    def _places(self, part: Any, name: str, first: int, clock: Clock) -> Places:
        """Places in the order: numbers as they are, dates, times and spans in their unit, text as a CSV has it."""
        import pyarrow as pa

        column = _plain(part.column(name))
        kinds = pa.types
        missing = np.flatnonzero(~column.is_valid().to_numpy(zero_copy_only=False))
        if len(missing):
            raise TableError(f"{self.place(first + int(missing[0]), name)} is null")
        if kinds.is_decimal(column.type) or kinds.is_string(column.type) or kinds.is_large_string(column.type):
            return clock.read(self, name, self._texts(part, name, first), first)
        if kinds.is_floating(column.type):
            places = places_of_doubles(column.to_numpy(zero_copy_only=False).astype(np.float64))
            wrong = np.flatnonzero(~np.isfinite(places[:, 0]))
            if len(wrong):
                raise TableError(f"{self.place(first + int(wrong[0]), name)} is not finite")
            return places
        if kinds.is_temporal(column.type) and not kinds.is_interval(column.type):
            column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
        if not kinds.is_integer(column.type):
            raise TableError(
                f"{self.path}: column `{name}` is {column.type}; an order needs numbers, or dates and times"
            )
        whole = pa.uint64() if kinds.is_unsigned_integer(column.type) else pa.int64()
        return places_of_integers(column.cast(whole).to_numpy(zero_copy_only=False))


def _plain(column: Any) -> Any:
    """A column whose values are not told once for many rows."""
    import pyarrow as pa

    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _opened(path: str) -> Any:
    """The file. Raises TableError where it is no Parquet file."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise TableError(f"{path} is not a Parquet file that can be read: {error}") from error


@lru_cache(maxsize=64)
def _about(path: str, _size: int, _changed: int) -> tuple[tuple[str, ...], int]:
    """Names of the columns, and how many rows there are."""
    file = _opened(path)
    return tuple(file.schema_arrow.names), file.metadata.num_rows
