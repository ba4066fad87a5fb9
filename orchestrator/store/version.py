"""The version of the schema that this slotsweep works with."""

from __future__ import annotations

VERSION_TABLE = "slotsweep_alembic_version"
HEAD = "0008"


def old_schema(place: str, found: str | None) -> str:
    """What to say of a database whose schema is another one."""
    return (
        f"the database at {place} has schema {found or 'none'}, this version of slotsweep needs {HEAD}: "
        "run `slotsweep db upgrade`"
    )
