"""Places of rows in the order of a column, exact: a second double holds what a first one leaves of a number."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal

import numpy as np

from models.stream import Floats
from tasks.tables.columns import Table, TableError

DIGITS_OF_A_DOUBLE = 15
"""Texts of so many characters at most are numbers that doubles tell apart."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FINER = re.compile(r"[.,]\d{6}(\d+)")
"""Digits of a second after those that `datetime` reads."""

MOST_FINER = DIGITS_OF_A_DOUBLE - 6
"""Of these at most."""

EXACT = Context(prec=60)

Places = Floats
"""Places [n, 2]: rows are in order where their pairs are."""


def places_of_doubles(values: Floats) -> Places:
    """Of `values` [n]."""
    return np.stack([values, np.zeros_like(values)], axis=1)


def places_of_integers(values: np.ndarray) -> Places:
    """Of whole numbers [n] of 64 bits, with or without a sign."""
    return np.stack([values >> 32, values & 0xFFFFFFFF], axis=1).astype(np.float64)


def rising(places: Places, last: Places) -> bool:
    """Whether `places` [n, 2] are in order, and come after `last` [1, 2] or with it."""
    high, low = np.diff(np.concatenate([last, places]), axis=0).T
    return bool(((high > 0.0) | ((high == 0.0) & (low >= 0.0))).all())


class Clock:
    """Reads places from text: numbers, or dates and times in ISO 8601; the first row says which."""

    def __init__(self) -> None:
        self._dates: bool | None = None

    def read(self, table: Table, column: str, cells: list[str], first: int) -> Places:
        """Places [n, 2] of these cells. Raises TableError."""
        if self._dates is None:
            self._dates = not _is_number(cells[0])
        try:
            return _moments(cells) if self._dates else _numbers(cells)
        except ValueError:
            pass
        wrong = next(index for index, cell in enumerate(cells) if not self._reads(cell))
        meant = "a date or time in ISO 8601, as in the rows before" if self._dates else "a number"
        if first + wrong == 0:
            meant = "a number, nor a date or time in ISO 8601"
        raise TableError(f"{table.place(first + wrong, column)}: `{cells[wrong][:40]}` is not {meant}")

    def _reads(self, cell: str) -> bool:
        if not self._dates:
            return _is_number(cell)
        try:
            _moments([cell])
        except ValueError:
            return False
        return True


def number(cell: str) -> float:
    """The number that a cell says, rounded to a double. Raises ValueError: `1_0`, which Python reads, is none."""
    if "_" in cell:
        raise ValueError(cell)
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(number(cell)))
    except ValueError:
        return False


def _numbers(cells: list[str]) -> Places:
    found = places_of_doubles(np.array(list(map(number, cells)), dtype=np.float64))
    if not np.isfinite(found).all():
        raise ValueError("a number that is not finite")
    for row, cell in enumerate(cells):
        if len(cell) > DIGITS_OF_A_DOUBLE:
            nearest = Decimal(repr(float(found[row, 0])))  # as short texts say it, which leave nothing
            found[row, 1] = float(EXACT.subtract(Decimal(cell.strip()), nearest))
    return found


def _moments(cells: list[str]) -> Places:
    """Seconds from 1970 on, and parts of one; a time that names no zone is meant in UTC."""
    found = np.zeros((len(cells), 2))
    for row, cell in enumerate(cells):
        when = datetime.fromisoformat(cell)
        found[row, 0], part = divmod((when if when.tzinfo else when.replace(tzinfo=UTC)) - EPOCH, SECOND)
        found[row, 1] = part.microseconds / 1e6
        if len(cell) > len("2020-01-02T03:04:05.123456") and (finer := FINER.search(cell)) is not None:
            if len(finer[1]) > MOST_FINER:
                raise ValueError(cell)
            found[row, 1] = float(f"0.{part.microseconds:06}{finer[1]}")
    return found
