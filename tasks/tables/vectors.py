"""Vectors of items: drawn from a hash of their names, or read from a file of the user's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from models.kernel import kernel
from models.stream import Floats, Ints, unit
from tasks.tables.arrays import ONE_ARRAY, arrays_in, shapes_in
from tasks.tables.columns import TableError
from tasks.tables.csv_table import CsvTable
from tasks.tables.order import number

Place = Callable[[int, int | None], str]
"""How people find a number of a vector by its row and column, or by its row alone the name of it."""


class Vectors(Protocol):
    """Base vectors of items, by their marks."""

    @property
    def dim(self) -> int:
        """Width of a vector."""

    def of(self, marks: Ints) -> Floats:
        """Unit vectors [n, d] of items with these `marks` [n]."""


@dataclass(frozen=True)
class HashedVectors:
    """Directions uniform on the sphere, each drawn from its mark alone: the same in every trial, and none is kept."""

    dim: int

    def of(self, marks: Ints) -> Floats:
        found = np.empty((len(marks), self.dim))
        draw_directions(marks.astype(np.uint64), found)
        return found


@dataclass(frozen=True)
class GivenVectors:
    """Rows of a matrix, scaled to length 1: all of them are held in memory."""

    rows: Floats

    @property
    def dim(self) -> int:
        return int(self.rows.shape[1])

    def of(self, marks: Ints) -> Floats:
        rows = self.rows[marks].astype(np.float64)
        _, exponents = np.frexp(np.abs(rows).max(axis=1, keepdims=True))
        return unit(np.ldexp(rows, -exponents))  # by powers of two, which round nothing: squares of 1e200 overflow


@kernel
def draw_directions(marks: np.ndarray, found: Floats) -> None:
    """Write a direction for each of `marks` [n], 64 bits each, into `found` [n, d].

    SplitMix64 (Steele et al. 2014, doi:10.1145/2660193.2660195) gives the bits, Box and Muller's method the normals.
    """
    gap, first, second = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
    dim = found.shape[1]
    pair = np.empty(2)
    for r in range(len(marks)):
        state, square = marks[r], 0.0
        for k in range(0, dim, 2):
            for place in range(2):
                state = state + gap
                bits = (state ^ (state >> np.uint64(30))) * first
                bits = (bits ^ (bits >> np.uint64(27))) * second
                bits = bits ^ (bits >> np.uint64(31))
                pair[place] = (np.float64(bits >> np.uint64(11)) + 0.5) / 9007199254740992.0
            radius, angle = math.sqrt(-2.0 * math.log(pair[0])), 2.0 * math.pi * pair[1]
            found[r, k] = radius * math.cos(angle)
            square += found[r, k] ** 2
            if k + 1 < dim:
                found[r, k + 1] = radius * math.sin(angle)
                square += found[r, k + 1] ** 2
        length = math.sqrt(square)
        for k in range(dim):
            found[r, k] /= length


def read_vectors(path: str) -> tuple[dict[str, int], GivenVectors]:
    """Rows by name, and vectors, of the file at `path`. Raises TableError.

    .npz  arrays `keys` [K], names, and `vectors` [K, d]
    .npy  [K, d]; the names are 0 to K - 1
    .csv  a first row, then a name and d numbers in each; .tsv and .gz likewise
    """
    names, rows, place = _read_arrays(path) if _has_arrays(path) else _read_csv(path)
    if rows.ndim != 2 or len(names) != len(rows) or 0 in rows.shape:
        raise TableError(f"{path}: {len(names)} names and vectors of shape {rows.shape}; needed are K names and [K, d]")
    wrong = np.argwhere(~np.isfinite(rows))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise TableError(f"{place(row, column)}: {rows[row, column]} in the vector of `{names[row]}` is not finite")
    empty = np.flatnonzero(~rows.any(axis=1))
    if len(empty):
        row = int(empty[0])
        raise TableError(f"{place(row, 0)}: the vector of `{names[row]}` is zero, which has no direction to compare")
    numbers = {name: row for row, name in reversed(list(enumerate(names)))}
    if len(numbers) < len(names):
        row, twice = next((row, name) for row, name in enumerate(names) if numbers[name] != row)
        raise TableError(f"{place(row, None)}: more than one vector for `{twice}`")
    return numbers, GivenVectors(rows)


def width_in(path: str) -> int:
    """Width d of the vectors in the file at `path`, by its head alone. Raises TableError."""
    if not _has_arrays(path):
        return max(1, len(CsvTable(path).header()) - 1)
    shapes = shapes_in(path)
    return next((shape[1] for name in (ONE_ARRAY, "vectors") if len(shape := shapes.get(name, ())) == 2), 1)


def _has_arrays(path: str) -> bool:
    return path.endswith((".npz", ".npy"))


def _read_arrays(path: str) -> tuple[list[str], Floats, Place]:
    def place(row: int, column: int | None) -> str:
        if column is None:
            return f"{path}: `keys`, row {row + 1}"
        return f"{path}{'' if ONE_ARRAY in arrays else ': `vectors`'}, row {row + 1}, column {column + 1}"

    arrays = arrays_in(path, (ONE_ARRAY, "keys", "vectors"))
    if ONE_ARRAY in arrays:
        rows = _real(path, arrays[ONE_ARRAY])
        return [str(row) for row in range(len(rows))], rows, place
    missing = {"keys", "vectors"} - arrays.keys()
    if missing:
        raise TableError(f"{path} has no array `{min(missing)}`: it needs `keys` [K] and `vectors` [K, d]")
    if arrays["keys"].ndim != 1:
        raise TableError(f"{path}: `keys` has the shape {arrays['keys'].shape}, where [K] is needed")
    return [str(name) for name in arrays["keys"].tolist()], _real(path, arrays["vectors"]), place


def _real(path: str, rows: np.ndarray) -> Floats:
    if rows.dtype.kind not in "fiu" or rows.ndim == 0:
        raise TableError(f"{path}: vectors are {rows.dtype} {rows.shape}, where a matrix of numbers is needed")
    kept: Floats = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    return kept


def _read_csv(path: str) -> tuple[list[str], Floats, Place]:
    table = CsvTable(path)
    header = table.header()
    names: list[str] = []
    rows: list[list[float]] = []
    with table.rows() as cells:
        next(cells)
        for row, (name, *numbers) in enumerate(cells):
            if len(numbers) != len(header) - 1:
                raise TableError(
                    f"{table.place(row, header[0])}: {len(numbers)} numbers, where {len(header) - 1} are named"
                )
            names.append(name)
            rows.append([_number(table, row, column, cell) for column, cell in zip(header[1:], numbers, strict=True)])

    def place(row: int, column: int | None) -> str:
        return table.place(row, header[0 if column is None else column + 1])

    return names, np.array(rows, dtype=np.float64).reshape(len(rows), len(header) - 1), place


def _number(table: CsvTable, row: int, column: str, cell: str) -> float:
    try:
        return number(cell)
    except ValueError:
        raise TableError(f"{table.place(row, column)}: `{cell[:40]}` is not a number") from None
