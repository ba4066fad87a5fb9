"""Running sweeps in the foreground of a terminal: progress, Ctrl-C, and what is said at the end."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, NoReturn

import typer

from orchestrator.cli.output import ProgressView, duration, print_json, print_rich, say
from orchestrator.exit_codes import ALL_DONE, TRIALS_FAILED

if TYPE_CHECKING:
    from orchestrator.client.base import Client, Outcome
    from orchestrator.scheduler import StopRequest


def run_sweeps(client: Client, sweeps: Sequence[str] | None) -> list[Outcome]:
    """Run `sweeps` (None: all unfinished ones), or watch a service do so, with progress on stderr."""
    from orchestrator.scheduler import StopRequest

    gc.enable()
    stop = StopRequest()
    # What Ray, or code of the user's that runs here, prints is not the result, which is all that stdout is for.
    with ProgressView() as view, _interrupts(stop), redirect_stdout(sys.stderr):
        return client.run(sweeps, on_progress=view.update, stop=stop, tell=say)


@contextmanager
def _interrupts(stop: StopRequest) -> Iterator[None]:
    """Ctrl-C once drains (state paused), twice cancels."""

    def interrupt(_signal: int, _frame: object) -> None:
        again = stop.drain.is_set()
        stop.escalate()
        say("cancelling" if again else "finishing what runs, then pausing; Ctrl-C again cancels")

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def finish(
    outcomes: Sequence[Outcome], as_json: bool, suite: str | None = None, left_out: Mapping[str, str] | None = None
) -> NoReturn:
    """Say how each sweep ended (as JSON, the last line of each), and all together if they are a `suite`'s, and exit.

    left_out: specs of the suite that were not run, by name, and why
    """
    for outcome in outcomes:
        if as_json:
            _print_json(outcome)
        else:
            _print(outcome)
        if outcome.broken:
            say(f"sweep {outcome.sweep.id} ({outcome.sweep.name}) could not be run: {outcome.broken}")
        if outcome.refusal:
            say(f"{outcome.undelivered} MLflow runs were refused: {outcome.refusal}")
        elif outcome.undelivered:
            say(
                f"{outcome.undelivered} MLflow runs are still to be written; the next command that runs a sweep "
                "delivers them when the tracking store answers"
            )
        if outcome.unmirrored:
            say(
                f"the studies of sweep {outcome.sweep.id} are not in Optuna's store: {outcome.unmirrored}; the next "
                f"command that runs a sweep, or `slotsweep report {outcome.sweep.id}`, writes them"
            )
    if suite is not None:
        _print_suite(suite, outcomes, as_json, left_out or {})
    complete = not left_out and all(outcome.sweep.state == "done" for outcome in outcomes)
    raise typer.Exit(ALL_DONE if complete else TRIALS_FAILED)


def _print_suite(suite: str, outcomes: Sequence[Outcome], as_json: bool, left_out: Mapping[str, str]) -> None:
    """Totals of a suite, and what was left out. Trials that several sweeps share are counted in each."""
    counts = [outcome.sweep.counts for outcome in outcomes]
    totals = {
        "suite": suite,
        "sweeps": len(outcomes),
        "trials": sum(one.total for one in counts),
        "done": sum(one.done for one in counts),
        "failed": sum(one.failed for one in counts),
        "reused": sum(outcome.sweep.reused for outcome in outcomes),
        "seconds": round(max((outcome.seconds for outcome in outcomes), default=0.0), 3),
    }
    if as_json:
        print_json(totals | {"left_out": dict(left_out)})
    else:
        typer.echo(
            f"{suite}: {totals['sweeps']} sweeps, {totals['done']} of {totals['trials']} trials done, "
            f"{totals['failed']} failed, in {duration(float(str(totals['seconds'])))}"
        )
        for name, reason in left_out.items():
            typer.echo(f"left out  {name}: {reason}")


def _print_json(outcome: Outcome) -> None:
    counts = outcome.sweep.counts
    print_json(
        {
            "sweep": outcome.sweep.id,
            "trials": counts.total,
            "done": counts.done,
            "failed": counts.failed,
            "reused": outcome.sweep.reused,
            "seconds": round(outcome.seconds, 3),
            "report": outcome.report,
            **({} if outcome.broken is None else {"error": outcome.broken}),
        }
    )


def _print(outcome: Outcome) -> None:
    sweep, counts = outcome.sweep, outcome.sweep.counts
    if outcome.tables is not None:
        print_rich(outcome.tables)
    typer.echo(
        f"{sweep.state}: {counts.done} of {counts.total} trials done, {counts.failed} failed, "
        f"{sweep.reused} of {counts.total} reused, in {duration(outcome.seconds)}"
    )
    if outcome.report is not None:
        typer.echo(f"report    {outcome.report}")
    if outcome.capped is not None:
        typer.echo(f"go on     run its spec again with another cap, what is done is reused ({outcome.capped})")
    elif sweep.state == "paused":
        if sweep.waiting and not outcome.broken:
            typer.echo(f"why       {sweep.waiting}")
        typer.echo(f"go on     slotsweep resume {sweep.id}")
    if counts.failed:
        typer.echo(f"again     slotsweep retry {sweep.id} --failed")
    typer.echo("MLflow    slotsweep dashboard" if outcome.page is None else f"page      {outcome.page}")
