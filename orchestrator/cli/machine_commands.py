"""Commands about machines: doctor, worker, workers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.output import duration, print_json, print_rich, say
from orchestrator.cli.spec_commands import AsJson
from orchestrator.exit_codes import ALL_DONE, SYSTEM_FAILED

if TYPE_CHECKING:
    from orchestrator.roster import Roster


def register(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    for command in (doctor, worker, workers):
        app.command()(command)


def doctor(as_json: AsJson = False) -> None:
    """Check what a first run needs, and say what is missing and how to mend it."""
    from orchestrator.doctor import examine
    from orchestrator.settings import Settings

    findings = examine(Settings.read())
    healthy = all(finding.ok for finding in findings)
    if as_json:
        print_json({"ok": healthy, "checks": [finding.as_json() for finding in findings]})
    else:
        for finding in findings:
            typer.echo(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.check:<12} {finding.detail}")
            if not finding.ok:
                typer.echo(f"      {'':<12} {finding.cure}")
    raise typer.Exit(ALL_DONE if healthy else SYSTEM_FAILED)


def worker(
    head: Annotated[str, typer.Option("--join", help="the cluster's head, HOST:PORT", metavar="HOST:PORT")],
    cpus: Annotated[int | None, typer.Option(min=1, help="cores to offer; all of them if left out")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="file with the cluster's token, unless RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH give it"),
    ] = None,
) -> None:
    """Make this machine a node of a Ray cluster, with the devices it has, until Ctrl-C or SIGTERM ends it in order."""
    from orchestrator.errors import ExecutorError, RequestError
    from workers.gcs import ClusterError, ClusterRequestError
    from workers.join import join

    try:
        code = join(head, cpus, token_file, say)
    except ClusterRequestError as error:
        raise RequestError(str(error)) from error
    except ClusterError as error:
        raise ExecutorError(str(error)) from error
    raise typer.Exit(code)


def workers(
    every: Annotated[bool, typer.Option("--all", help="also those that ended in order")] = False,
    as_json: AsJson = False,
) -> None:
    """List the fleet: nodes of the cluster, and workers with their device, load, agreement and state."""
    from orchestrator.client import open_client
    from orchestrator.settings import Settings

    settings = Settings.read()
    roster = open_client(settings).workers(every=every)
    if as_json:
        print_json(roster.as_json())
    else:
        _print_roster(roster, of_a_service=settings.server is not None)


def _print_roster(roster: Roster, *, of_a_service: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    if roster.nodes:
        table = Table("node", "cores", "cuda", "mps", "accelerator", "state", box=None, pad_edge=False)
        for node in roster.nodes:
            counts = (str(node.cpus), str(node.cuda), str(node.mps))
            table.add_row(Text(node.name), *counts, node.accelerator or "", node.state)
        print_rich(table, "")
    if roster.unlisted is not None:
        say(roster.unlisted)
    if not roster.workers:
        starts = "the service starts some when it runs a sweep" if of_a_service else "`slotsweep run SPEC` starts some"
        say(f"no worker: {starts}, and `slotsweep worker --join HEAD:PORT` adds a machine")
        return
    columns = ("worker", "device", "machine", "state", "holds", "done", "agreement", "seen")
    table = Table(*columns, box=None, pad_edge=False)
    for one in roster.workers:
        holds = f"{one.trials} trials" if one.trials else ""
        seen = f"{duration(max(0.0, roster.now - one.last_seen))} ago"
        table.add_row(one.id, one.device, Text(one.machine), one.state, holds, str(one.done), Text(one.agreement), seen)
    print_rich(table)
