"""Triggers that make illegal changes of state impossible for every client, ours or not."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from orchestrator.store.states import SWEEP_CHANGES, TRIAL_CHANGES

State = TypeVar("State", bound=StrEnum)


def trigger_statements(dialect: str) -> list[str]:
    """SQL that creates the triggers on `dialect` (sqlite or postgresql)."""
    if dialect == "postgresql":
        return [*_on_postgres("trials", TRIAL_CHANGES), *_on_postgres("sweeps", SWEEP_CHANGES)]
    return [*_on_sqlite("trials", TRIAL_CHANGES), *_on_sqlite("sweeps", SWEEP_CHANGES)]


def _illegal(changes: Mapping[State, frozenset[State]]) -> str:
    """A condition on OLD and NEW that is true for a change without an arrow."""
    arrows = [
        f"(OLD.state = '{before}' AND NEW.state = '{to}')" for before in changes for to in sorted(changes[before])
    ]
    return f"OLD.state <> NEW.state AND NOT ({' OR '.join(arrows)})"


def _on_sqlite(table: str, changes: Mapping[State, frozenset[State]]) -> list[str]:
    return [
        f"CREATE TRIGGER {table}_state BEFORE UPDATE OF state ON {table} WHEN {_illegal(changes)} "
        f"BEGIN SELECT RAISE(ABORT, 'illegal change of state in {table}'); END"
    ]


def _on_postgres(table: str, changes: Mapping[State, frozenset[State]]) -> list[str]:
    return [
        f"CREATE FUNCTION {table}_state_is_illegal() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION 'illegal change of state in {table}'; END $$",
        f"CREATE TRIGGER {table}_state BEFORE UPDATE OF state ON {table} FOR EACH ROW "
        f"WHEN ({_illegal(changes)}) EXECUTE FUNCTION {table}_state_is_illegal()",
    ]
