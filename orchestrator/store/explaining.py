"""What `plan --explain` asks the database: how trials stand, which cells are finished, which code was recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import Connection, Engine, select

from orchestrator.store import schema
from orchestrator.store.base import insert_new
from orchestrator.store.chunks import chunks
from orchestrator.store.engine import reading
from orchestrator.store.records import CellRow
from orchestrator.store.states import TrialState

MOST_CELLS = 20_000
"""Finished cells that are compared with a plan's: the newest."""


def latest_states(engine: Engine, keys: Iterable[str]) -> dict[str, tuple[str, str | None]]:
    """(state, reason) of each of `keys` that is stored: of a finished generation if there is any, else the newest."""
    columns = schema.trials.c
    found: dict[str, tuple[str, str | None]] = {}
    with reading(engine) as connection:
        for chunk in chunks(keys):
            rows = connection.execute(
                select(columns.key, columns.state, columns.reason)
                .where(columns.key.in_(chunk))
                .order_by(columns.state == TrialState.DONE, columns.generation)
            )
            found.update((key, (state, reason)) for key, state, reason in rows)
    return found


def done_cells(engine: Engine, workloads: Collection[str], mechanisms: Collection[str]) -> list[CellRow]:
    """The newest cells with a finished trial, of these workloads and mechanisms (names), oldest first."""
    columns = schema.cells.c
    finished = select(schema.trials.c.cell).where(schema.trials.c.state == TrialState.DONE)
    query = (
        select(*(column for column in columns if column.name != "id"))
        .where(
            columns.workload["name"].as_string().in_(workloads),
            columns.mechanism["name"].as_string().in_(mechanisms),
            columns.id.in_(finished),
        )
        .order_by(columns.id.desc())
        .limit(MOST_CELLS)
    )
    with reading(engine) as connection:
        return [CellRow(**row) for row in connection.execute(query).mappings()][::-1]


def save_fingerprints(connection: Connection, modules: Mapping[str, Mapping[str, str]]) -> None:
    """Record the hash of each module behind a fingerprint, {fingerprint: {module: hash}}; those recorded stay."""
    rows = [{"digest": digest, "modules": dict(hashes)} for digest, hashes in modules.items()]
    if rows:
        connection.execute(insert_new(connection, schema.fingerprints), rows)


def recorded_modules(engine: Engine, fingerprints: Iterable[str]) -> dict[str, dict[str, str]]:
    """{module: hash} of each of `fingerprints` whose modules were recorded."""
    columns = schema.fingerprints.c
    found: dict[str, dict[str, str]] = {}
    with reading(engine) as connection:
        for chunk in chunks(fingerprints):
            rows = connection.execute(select(columns.digest, columns.modules).where(columns.digest.in_(chunk)))
            found.update((digest, modules) for digest, modules in rows)
    return found
