"""Bringing a database to the schema of this version."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine

from orchestrator.store.engine import HEAD


def upgrade_schema(engine: Engine) -> str:
    """Run the migrations that `engine`'s database lacks, in one transaction; the version it then has."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return HEAD
