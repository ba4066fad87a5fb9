"""A look at a SQLite store through Python's own driver: `plan` asks little, and SQLAlchemy takes longer to load."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Protocol

from orchestrator.errors import StoreError
from orchestrator.store import costs
from orchestrator.store.chunks import chunks
from orchestrator.store.records import CellCost, CrewSeen, RunCost, StreamCost
from orchestrator.store.version import HEAD, VERSION_TABLE, old_schema


class Glance(Protocol):
    """What a plan asks of a store."""

    def done_keys(self, keys: Iterable[str]) -> set[str]:
        """Those of `keys` that have a finished trial."""

    def cell_costs(self, mechanisms: Collection[str], most: int) -> list[CellCost]:
        """As `orchestrator.store.costs.cell_costs`."""

    def stream_costs(self, most: int) -> list[StreamCost]:
        """As `orchestrator.store.costs.stream_costs`."""

    def runs(self, most: int) -> list[RunCost]:
        """As `orchestrator.store.costs.runs`."""

    def crew_seen(self) -> list[CrewSeen]:
        """As `orchestrator.store.costs.crew_seen`."""


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

    def done_keys(self, keys: Iterable[str]) -> set[str]:
        query = "SELECT DISTINCT key FROM trials WHERE state = 'done' AND key IN "
        return {
            key
            for chunk in chunks(keys)
            for (key,) in self._connection.execute(f"{query} ({','.join('?' * len(chunk))})", chunk)
        }

    def cell_costs(self, mechanisms: Collection[str], most: int) -> list[CellCost]:
        return costs.cell_costs(self._connection.execute, mechanisms, most)

    def stream_costs(self, most: int) -> list[StreamCost]:
        return costs.stream_costs(self._connection.execute, most)

    def runs(self, most: int) -> list[RunCost]:
        return costs.runs(self._connection.execute, most)

    def crew_seen(self) -> list[CrewSeen]:
        return costs.crew_seen(self._connection.execute)
