"""A look at a SQLite store through Python's own driver: `plan` asks two things, and SQLAlchemy takes longer to load."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from orchestrator.errors import StoreError
from orchestrator.store.chunks import chunks
from orchestrator.store.records import CellRow
from orchestrator.store.version import HEAD, VERSION_TABLE, old_schema

CELL_TIMES = """
SELECT digest, kind, workload, mechanism, episodes, dtype, device, fingerprint, avg(wall_seconds), count(*)
FROM cells JOIN trials ON trials.cell = cells.id JOIN results ON results.trial = trials.id
GROUP BY cells.id ORDER BY cells.id DESC LIMIT ?
"""


class Glance(Protocol):
    """What a plan asks of a store."""

    def count_done(self, keys: Iterable[str]) -> int:
        """How many of `keys` have a finished trial."""

    def cell_times(self, limit: int) -> list[tuple[CellRow, float, int]]:
        """The `limit` newest cells with finished trials: the cell, mean wall seconds of a trial, number of trials."""


class SqliteGlance:
    """Answers as `Store` does, of a file that exists. Raises StoreError if it cannot be read."""

    def __init__(self, file: Path) -> None:
        try:
            self._connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
            [found] = self._connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() or [None]
        except sqlite3.Error as error:
            raise StoreError(f"cannot read the database at {file}: {error}") from error
        if found != HEAD:
            raise StoreError(old_schema(str(file), found))

    def count_done(self, keys: Iterable[str]) -> int:
        query = "SELECT count(DISTINCT key) FROM trials WHERE state = 'done' AND key IN "
        return sum(
            self._connection.execute(f"{query} ({','.join('?' * len(chunk))})", chunk).fetchone()[0]
            for chunk in chunks(keys)
        )

    def cell_times(self, limit: int) -> list[tuple[CellRow, float, int]]:
        return [
            (CellRow(digest, kind, json.loads(workload), json.loads(mechanism), *rest), mean, count)
            for digest, kind, workload, mechanism, *rest, mean, count in self._connection.execute(CELL_TIMES, (limit,))
        ]
