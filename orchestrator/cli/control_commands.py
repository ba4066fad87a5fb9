"""Commands that steer sweeps: pause, resume, cancel, retry."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from orchestrator.cli.output import print_json, say
from orchestrator.cli.running import finish, run_sweeps
from orchestrator.cli.spec_commands import AsJson
from orchestrator.cli.sweep_commands import SweepName

ExecutorOption = Annotated[Literal["ray", "inline"], typer.Option(help="ray, or inline: in this process")]


def register(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    for command in (pause, resume, cancel, retry):
        app.command()(command)


def pause(sweep: SweepName, as_json: AsJson = False) -> None:
    """Hand out no more of a sweep's trials; what runs is finished. `resume` goes on."""
    from orchestrator.errors import RequestError
    from orchestrator.requests import existing_store, find_sweep
    from orchestrator.settings import Settings
    from orchestrator.store.states import SweepState

    store = existing_store(Settings.read())
    row = find_sweep(store, sweep)
    if row.state != SweepState.PAUSED and not store.set_sweep_state(row.id, SweepState.PAUSED):
        raise RequestError(f"sweep {row.id} is {row.state}: only a queued or running sweep can be paused")
    _tell(row.id, "paused", as_json)


def cancel(sweep: SweepName, as_json: AsJson = False) -> None:
    """End a sweep: its waiting trials are cancelled, results that are there stay. `resume` takes it up again."""
    from orchestrator.errors import RequestError
    from orchestrator.requests import existing_store, find_sweep
    from orchestrator.settings import Settings
    from orchestrator.store.states import SweepState
    from orchestrator.tracker_process import TrackerProcess

    settings = Settings.read()
    store = existing_store(settings)
    row = find_sweep(store, sweep)
    if row.state != SweepState.CANCELLED and not store.set_sweep_state(row.id, SweepState.CANCELLED):
        raise RequestError(f"sweep {row.id} is {row.state} already: nothing to cancel")
    store.expire()
    store.cancel_pending(row.id)
    TrackerProcess(settings).leave()
    _tell(row.id, "cancelled", as_json)


def _tell(sweep: str, state: str, as_json: bool) -> None:
    if as_json:
        print_json({"sweep": sweep, "state": state})
    else:
        typer.echo(f"{sweep} {state}")


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
    from orchestrator.requests import existing_store, find_sweep
    from orchestrator.resuming import follow_edits
    from orchestrator.runner import UNFINISHED
    from orchestrator.settings import Settings
    from orchestrator.store.states import SweepState, TrialState

    settings = Settings.read()
    store = existing_store(settings)
    if sweep is None:
        if not store.waiting_sweeps(UNFINISHED):
            say("nothing to resume: every sweep has ended")
        finish(run_sweeps(settings, store, None, executor), as_json)
    row = find_sweep(store, sweep)
    if not as_submitted:
        added = follow_edits(store, row, settings)
        if added:
            say(f"{row.spec_path} was edited: {added} trials added")
    if row.state in (SweepState.CANCELLED, SweepState.FAILED):
        store.retry(row.id, [TrialState.CANCELLED])
    finish(run_sweeps(settings, store, [row.id], executor), as_json)


def retry(
    sweep: SweepName,
    failed: Annotated[bool, typer.Option("--failed", help="compute the sweep's failed trials again")] = False,
    executor: ExecutorOption = "ray",
    queue: Annotated[bool, typer.Option("--queue", help="only queue them; `resume` executes")] = False,
    as_json: AsJson = False,
) -> None:
    """Compute failed trials again; what failed before stays in their history."""
    from orchestrator.errors import RequestError
    from orchestrator.requests import existing_store, find_sweep
    from orchestrator.settings import Settings
    from orchestrator.store.states import TrialState

    if not failed:
        raise RequestError("say what to retry: `slotsweep retry SWEEP --failed`")
    settings = Settings.read()
    store = existing_store(settings)
    row = find_sweep(store, sweep)
    count = store.retry(row.id, [TrialState.FAILED, TrialState.CANCELLED])
    say(f"{count} trials of {row.id} wait again" if count else f"no trial of {row.id} failed")
    if queue:
        _tell(row.id, store.sweep(row.id).state, as_json)
    else:
        finish(run_sweeps(settings, store, [row.id], executor) if count else [], as_json)
