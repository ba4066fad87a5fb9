"""A table of any width for a terminal: intervals go below their means, then columns go below each other, as needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from dashboards.grids import numeric_columns, printed_rows
from tasks.summary import Grid

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table

FOLDED = 18
"""Text is folded to no less than this many characters."""

GAP = 2
"""What a column is wider than its text, margins of the table shared among columns."""


@dataclass(frozen=True)
class _Column:
    """A column as written: `narrowest` is the least width at which its numbers stay whole."""

    name: str
    cells: tuple[str, ...]
    number: bool

    @property
    def narrowest(self) -> int:
        words = max((len(word) for word in self.name.split()), default=0)
        lines = max((len(line) for cell in self.cells for line in cell.split("\n")), default=0)
        return max(words, lines) if self.number else min(FOLDED, max(len(self.name), lines))

    @property
    def stacked(self) -> _Column:
        """The same with intervals below their means."""
        return _Column(self.name, tuple(cell.replace(" [", "\n[") for cell in self.cells), self.number)


@dataclass(frozen=True)
class FittedTable:
    """A Rich renderable of `grid` that keeps every number whole at any sensible width.

    Where the columns do not fit beside each other, intervals go below their means; where they still do not, the table
    goes on below with the columns repeated that name its rows.
    """

    grid: Grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        numeric = numeric_columns(self.grid)
        rows = printed_rows(self.grid)
        columns = [_Column(name, tuple(row[i] for row in rows), numeric[i]) for i, name in enumerate(self.grid.columns)]
        if _width(columns) > options.max_width:
            columns = [column.stacked if column.number else column for column in columns]
        for part in _parts(columns, options.max_width):
            yield _table(part)


def _width(columns: list[_Column]) -> int:
    return sum(column.narrowest + GAP for column in columns)


def _parts(columns: list[_Column], width: int) -> Iterator[list[_Column]]:
    """The columns in as few parts as fit `width`, each with those that name the rows."""
    names = _names(columns, width)
    part = list(names)
    for column in columns[len(names) :]:
        if len(part) > len(names) and _width([*part, column]) > width:
            yield part
            part = list(names)
        part.append(column)
    if part:
        yield part


def _names(columns: list[_Column], width: int) -> list[_Column]:
    """The columns of text that a table begins with; the first alone where these take more than half of `width`."""
    names = list(takewhile(lambda column: not column.number, columns))
    return names if _width(names) <= width / 2 else columns[:1]


def _table(columns: list[_Column]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(
            Text(column.name),
            justify="right" if column.number else "left",
            overflow="fold",
            min_width=column.narrowest,
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, cells))
    return table
