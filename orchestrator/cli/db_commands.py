"""Commands about the database itself: db upgrade."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli.output import print_json, say
from orchestrator.cli.spec_commands import AsJson

db = typer.Typer(help="Commands about the database itself.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    app.add_typer(db, name="db")


@db.callback()
def commands() -> None:
    """Commands about the database itself."""


@db.command()
def upgrade(
    force: Annotated[bool, typer.Option("--force", help="upgrade even while a run uses the database")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the database of an earlier slotsweep to the schema of this one."""
    from orchestrator.client import refuse_server
    from orchestrator.errors import RequestError
    from orchestrator.settings import Settings
    from orchestrator.store.engine import open_engine, shown
    from orchestrator.store.upgrade import Upgrade, upgradable_version
    from orchestrator.store.upgrade import upgrade as upgrade_schema
    from orchestrator.store.version import HEAD

    settings = Settings.read()
    refuse_server(settings, "slotsweep db upgrade")
    if settings.database_file is not None and not settings.database_file.exists():
        raise RequestError(f"there is no database at {settings.database_file}: the first `slotsweep run` makes one")
    engine = open_engine(settings.database_url)
    before = upgradable_version(engine)
    if before == HEAD:
        done = Upgrade(before, HEAD, None)
        say(f"{shown(engine)} is already at {HEAD}")
    else:
        if engine.dialect.name == "postgresql":
            say(f"no copy is made of a database on a server: to be able to go back from {HEAD}, take a dump first")
        done = upgrade_schema(engine, force=force)
        say(f"upgraded {shown(engine)} from {done.before} to {done.after}")
        if done.backup is not None:
            say(f"the database as it was is in {done.backup}")
    if as_json:
        print_json({"before": done.before, "after": done.after, "backup": done.backup and str(done.backup)})
