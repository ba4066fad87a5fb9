"""Commands about the service: serve, token."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.output import print_json, print_rich, say
from orchestrator.cli.spec_commands import AsJson
from orchestrator.service.options import LOOPBACK, MOST_TRIALS, PLAN_SECONDS, PORT
from orchestrator.store.states import Role

if TYPE_CHECKING:
    from orchestrator.store.access import TokenRow

token = typer.Typer(help="Tokens of the service's users.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    app.command()(serve)
    for command in (create, list_tokens, revoke):
        token.command(command.__name__.partition("_")[0])(command)
    app.add_typer(token, name="token")


def serve(
    host: Annotated[
        str, typer.Option(help="address to listen on; other machines reach only what is not loopback")
    ] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port to listen on; 0: one that is free")] = PORT,
    allow_plugins: Annotated[
        bool, typer.Option("--allow-plugins", help="take code from submitters, which workers then run")
    ] = False,
    data_folder: Annotated[
        list[Path] | None,
        typer.Option(help="folder whose files uploaded specs may name, beside SLOTSWEEP_DATA (repeatable)"),
    ] = None,
    max_trials: Annotated[int, typer.Option(min=1, help="most trials an uploaded spec may make")] = MOST_TRIALS,
    plan_seconds: Annotated[
        float,
        typer.Option(min=1, help="most seconds that reading, planning and storing what a request brings may take"),
    ] = PLAN_SECONDS,
    https: Annotated[bool, typer.Option("--https", help="pages are reached over HTTPS, through a proxy")] = False,
    no_run: Annotated[bool, typer.Option("--no-run", help="only answer; other replicas run the sweeps")] = False,
) -> None:
    """Serve the API and the pages of this store, and run the sweeps that its users submit, until Ctrl-C or SIGTERM."""
    from orchestrator.client import refuse_server
    from orchestrator.service.options import ServiceOptions
    from orchestrator.service.serve import serve as serve_until_stopped
    from orchestrator.service.webhook_settings import read_public_url, take_webhooks
    from orchestrator.settings import Settings

    settings = Settings.read()
    refuse_server(settings, "slotsweep serve")
    webhooks, webhook_secret = take_webhooks(os.environ)
    options = ServiceOptions(
        host=host,
        port=port,
        allow_plugins=allow_plugins,
        data_folders=tuple(folder.resolve() for folder in data_folder or ()),
        most_trials=max_trials,
        plan_seconds=plan_seconds,
        secure=https,
        runs_sweeps=not no_run,
        public_url=read_public_url(os.environ),
        webhooks=webhooks,
        webhook_secret=webhook_secret,
    )
    serve_until_stopped(settings, options, say)


def create(
    user: Annotated[str, typer.Argument(help="whose token it is", metavar="USER")],
    role: Annotated[
        Role, typer.Option(help="viewer: look; submitter: submit sweeps and steer their own; admin: everything")
    ] = Role.SUBMITTER,
    days: Annotated[float | None, typer.Option(help="how long it holds; until revoked if left out")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it, this once: only its hash is kept."""
    from orchestrator.client import open_client
    from orchestrator.settings import Settings

    row, secret = open_client(Settings.read()).create_token(user, role, days)
    if as_json:
        print_json({**_record(row), "token": secret})
    else:
        say(f"token {row.id} of {user}, {role}: it is shown only now")
        typer.echo(secret)


def list_tokens(as_json: AsJson = False) -> None:
    """List tokens: whose they are, what they allow, when they were last used."""
    from rich.table import Table
    from rich.text import Text

    from orchestrator.client import open_client
    from orchestrator.settings import Settings

    rows = open_client(Settings.read()).tokens()
    if as_json:
        print_json([_record(row) for row in rows])
        return
    if not rows:
        say("no token yet: `slotsweep token create USER` makes one")
        return
    table = Table("token", "user", "role", "state", "created", "last used", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row.id, Text(row.user), row.role, row.state, _time(row.created), _time(row.last_used))
    print_rich(table)


def revoke(
    identity: Annotated[str, typer.Argument(help="the token's id, as `token list` shows it", metavar="TOKEN")],
    as_json: AsJson = False,
) -> None:
    """Let a token hold no more, nor any session that began with it."""
    from orchestrator.client import open_client
    from orchestrator.settings import Settings

    row = open_client(Settings.read()).revoke_token(identity)
    if as_json:
        print_json(_record(row))
    else:
        typer.echo(f"token {row.id} of {row.user} revoked")


def _record(row: TokenRow) -> dict[str, str | float | None]:
    return {**vars(row), "role": str(row.role), "state": row.state}


def _time(seconds: float | None) -> str:
    return "never" if seconds is None else datetime.fromtimestamp(seconds).isoformat(" ", "minutes")
