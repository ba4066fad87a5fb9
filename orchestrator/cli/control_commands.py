"""Commands that steer sweeps: pause, resume, cancel, retry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from orchestrator.cli.output import print_json, say
from orchestrator.cli.running import finish, run_sweeps
from orchestrator.cli.spec_commands import AsJson
from orchestrator.cli.sweep_commands import SweepName

if TYPE_CHECKING:
    from orchestrator.store.status import SweepStatus

ExecutorOption = Annotated[Literal["ray", "inline"], typer.Option(help="ray, or inline: in this process")]


def register(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    for command in (pause, resume, cancel, retry):
        app.command()(command)


def pause(sweep: SweepName, as_json: AsJson = False) -> None:
    """Hand out no more of a sweep's trials; what runs is finished. `resume` goes on."""
    from orchestrator.client import open_client
    from orchestrator.settings import Settings

    _tell(open_client(Settings.read()).pause(sweep), as_json)


def cancel(sweep: SweepName, as_json: AsJson = False) -> None:
    """End a sweep: its waiting trials are cancelled, results that are there stay. `resume` takes it up again."""
    from orchestrator.client import open_client
    from orchestrator.settings import Settings

    _tell(open_client(Settings.read()).cancel(sweep), as_json)


def _tell(sweep: SweepStatus, as_json: bool) -> None:
    if as_json:
        print_json({"sweep": sweep.id, "state": sweep.state})
    else:
        typer.echo(f"{sweep.id} {sweep.state}")


def resume(
    sweep: Annotated[
        str | None, typer.Argument(help="a sweep's id, or `last`; all unfinished ones if left out")
    ] = None,
    as_submitted: Annotated[bool, typer.Option("--as-submitted", help="ignore edits of the spec file")] = False,
    executor: ExecutorOption = "ray",
    as_json: AsJson = False,
) -> None:
    """Finish what is missing: of one sweep, or of all that are queued, paused, or were left by a process that died.

    If the spec file was edited, what it adds is added; if it means something else now, that is refused.
    """
    from orchestrator.client import open_client
    from orchestrator.settings import Settings

    client = open_client(Settings.read(), executor)
    if sweep is None:
        outcomes = run_sweeps(client, None)
        if not outcomes:
            say("nothing to resume: every sweep has ended")
        finish(outcomes, as_json)
    resumed = client.resume(sweep, as_submitted=as_submitted)
    if resumed.trials:
        say(f"the spec's file was edited: {resumed.trials} trials added")
    finish(run_sweeps(client, [resumed.sweep.id]), as_json)


def retry(
    sweep: SweepName,
    failed: Annotated[bool, typer.Option("--failed", help="compute the sweep's failed trials again")] = False,
    executor: ExecutorOption = "ray",
    queue: Annotated[bool, typer.Option("--queue", help="only queue them; `resume` executes")] = False,
    as_json: AsJson = False,
) -> None:
    """Compute failed trials again; what failed before stays in their history."""
    from orchestrator.client import open_client
    from orchestrator.errors import RequestError
    from orchestrator.settings import Settings

    if not failed:
        raise RequestError("say what to retry: `slotsweep retry SWEEP --failed`")
    client = open_client(Settings.read(), executor)
    retried = client.retry(sweep)
    row = retried.sweep
    say(f"{retried.trials} trials of {row.id} wait again" if retried.trials else f"no trial of {row.id} failed")
    if queue:
        _tell(row, as_json)
    else:
        finish(run_sweeps(client, [row.id]) if retried.trials else [], as_json)
