"""Commands about sweeps: run, submit, status, results, report."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from orchestrator.cli.output import duration, print_json, print_rich, say
from orchestrator.cli.price_options import MaxCost, MaxHours, On, Price, caps, expected_to_reach, rates
from orchestrator.cli.spec_commands import AsJson, Overrides, SpecName

if TYPE_CHECKING:
    from orchestrator.caps import Caps
    from orchestrator.client.base import Client, Submission
    from orchestrator.store.status import SweepStatus

SweepName = Annotated[str, typer.Argument(help="a sweep's id (its beginning is enough), or `last`", metavar="SWEEP")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="compute again what is already done")]
Wait = Annotated[
    float | None,
    typer.Option("--wait", min=0, help="minutes to wait for workers that the sweep needs and nobody offers yet"),
]


def register(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    for command in (run, submit, status, results, report):
        app.command()(command)


def run(
    what: Annotated[str, typer.Argument(help="a spec file, a sweep's id, or a ready-made spec", metavar="SPEC|SWEEP")],
    overrides: Overrides = None,
    no_cache: NoCache = False,
    executor: Annotated[Literal["ray", "inline"], typer.Option(help="ray, or inline: in this process")] = "ray",
    wait: Wait = None,
    max_hours: MaxHours = None,
    max_cost: MaxCost = None,
    on: On = None,
    price: Price = None,
    as_json: AsJson = False,
) -> None:
    """Run a sweep in the foreground: submit the spec (or take a queued sweep), compute what is missing, report.

    A suite's sweeps run together.
    """
    from orchestrator.cli.running import finish, run_sweeps
    from orchestrator.client import open_client
    from orchestrator.requests import is_spec
    from orchestrator.settings import Settings

    client = open_client(Settings.read(), executor)
    if is_spec(what):
        submission = _submit(client, what, overrides or [], no_cache, wait, _caps(max_hours, max_cost, on, price))
        sweeps, left_out = _submitted_now(submission)
    else:
        given = any(one is not None for one in (wait, max_hours, max_cost, on, price))
        sweeps, left_out = [_submitted_before(client, what, keeps=not (overrides or no_cache or given))], {}
    for sweep in map(client.sweep, sweeps):
        say(f"sweep {sweep.id} ({sweep.name}): {sweep.trials} trials, {sweep.reused} of {sweep.trials} reused")
    outcomes = run_sweeps(client, sweeps)
    suite = what if len(sweeps) + len(left_out) > 1 else None
    finish(sorted(outcomes, key=lambda one: sweeps.index(one.sweep.id)), as_json, suite, left_out)


def _caps(max_hours: float | None, max_cost: float | None, on: str | None, price: list[str] | None) -> Caps:
    """What each sweep may take of its workers."""
    return caps(max_hours, max_cost, rates(on, price))


def _submit(
    client: Client,
    what: str,
    overrides: list[str],
    no_cache: bool,
    wait: float | None,
    limits: Caps,
    *,
    to_run: bool = True,
) -> Submission:
    """Queue the spec or suite that `what` names; before that, tell what is expected to reach a cap."""
    from orchestrator.requests import spec_files

    files = spec_files(what, overrides)
    if limits.limited:
        for sentence in expected_to_reach(client.describe(files, explained=False), limits):
            say(sentence)
    return client.submit(files, use_cache=not no_cache, wait=wait or 0.0, caps=limits, check_data=to_run, to_run=to_run)


def _submitted_now(submission: Submission) -> tuple[list[str], Mapping[str, str]]:
    """Ids of the sweeps that were submitted, and what of the suite is left out, with the reasons."""
    from orchestrator.errors import RequestError

    for name, reason in submission.left_out.items():
        say(f"left out {name}: {reason}")
    if not submission.submitted:
        raise RequestError("the data of no sweep of the suite can be had")
    return [one.sweep for one in submission.submitted.values()], submission.left_out


def _submitted_before(client: Client, what: str, *, keeps: bool) -> str:
    """The id of the sweep that `what` names. keeps: whether nothing was asked for that belongs to a spec"""
    from orchestrator.errors import RequestError
    from orchestrator.requests import spec_path

    try:
        sweep = client.sweep(what)
    except RequestError:
        spec_path(what)  # names the ready-made specs in its error
        raise
    if not keeps:
        raise RequestError(
            "--set, --no-cache, --wait, caps and prices belong to a spec; a sweep keeps what it was submitted with"
        )
    return sweep.id


def submit(
    spec: SpecName,
    overrides: Overrides = None,
    no_cache: NoCache = False,
    wait: Wait = None,
    max_hours: MaxHours = None,
    max_cost: MaxCost = None,
    on: On = None,
    price: Price = None,
    as_json: AsJson = False,
) -> None:
    """Queue a sweep and print its id; `slotsweep run ID` executes it. Of a suite, one id a line."""
    from orchestrator.client import open_client
    from orchestrator.settings import Settings

    client, limits = open_client(Settings.read()), _caps(max_hours, max_cost, on, price)
    submission = _submit(client, spec, overrides or [], no_cache, wait, limits, to_run=False)
    for submitted in submission.submitted.values():
        say(f"queued {submitted.trials} trials, {submitted.reused} of {submitted.trials} reused")
        if as_json:
            print_json({"sweep": submitted.sweep, "trials": submitted.trials, "reused": submitted.reused})
        else:
            typer.echo(submitted.sweep)


def status(
    sweep: Annotated[str | None, typer.Argument(help="a sweep's id, or `last`; all sweeps if left out")] = None,
    watch: Annotated[
        bool,
        typer.Option("-w", "--watch", help="repeat until the sweep has ended; without one, of a service, all of yours"),
    ] = False,
    mine: Annotated[bool, typer.Option("--mine", help="only sweeps that you submitted to the service")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the state of one sweep or of all: how long the rest will take, or why it waits."""
    from orchestrator.client import open_client
    from orchestrator.errors import RequestError
    from orchestrator.settings import Settings
    from orchestrator.store.states import ENDED

    settings = Settings.read()
    if mine and settings.server is None:
        raise RequestError("`--mine` needs a service that knows whose sweeps are: set SLOTSWEEP_SERVER")
    client, mine = open_client(settings), settings.server is not None and (mine or watch)
    while True:
        rows = client.sweeps(mine=mine) if sweep is None else [client.sweep(sweep)]
        if as_json:
            print_json([_status(row) for row in rows])
        else:
            _print_status(rows)
        if not watch or all(row.state in ENDED for row in rows):
            return
        time.sleep(2.0)


def _status(row: SweepStatus) -> dict[str, Any]:
    counts = row.counts
    return {
        "sweep": row.id,
        "name": row.name,
        "kind": row.kind,
        "user": row.user,
        "priority": row.priority,
        "state": row.state,
        "waiting": row.waiting,
        "seconds_left": row.seconds_left,
        "trials": row.trials,
        "pending": counts.pending,
        "leased": counts.leased,
        "done": counts.done,
        "failed": counts.failed,
        "cancelled": counts.cancelled,
        "reused": row.reused,
        "created": row.created,
        "started": row.started,
        "finished": row.finished,
        "report": row.report,
    }


def _print_status(rows: list[SweepStatus]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not rows:
        say("no sweep yet: `slotsweep run quick-start` makes one")
        return
    whose = ("user",) if any(row.user is not None for row in rows) else ()
    rest = ("left",) if any(_rest(row) for row in rows) else ()
    numbers = ("trials", "done", "failed", "reused")
    table = Table("sweep", "name", *whose, "state", *numbers, "submitted", *rest, box=None, pad_edge=False)
    for row in rows:
        submitted = datetime.fromtimestamp(row.created).isoformat(" ", "minutes")
        user, left = [Text(row.user or "")] if whose else [], [Text(_rest(row))] if rest else []
        counts = map(str, (row.trials, row.counts.done, row.counts.failed, row.reused))
        table.add_row(row.id, Text(row.name), *user, row.state, *counts, submitted, *left)
    print_rich(table)


def _rest(row: SweepStatus) -> str:
    """How long the rest of a sweep will take, or why it waits, as far as that was said."""
    from orchestrator.spec.problems import visible

    if row.waiting is not None:
        return visible(row.waiting)
    return "" if row.seconds_left is None else duration(row.seconds_left)


def results(
    sweep: SweepName,
    output_format: Annotated[
        Literal["table", "csv", "parquet", "json"], typer.Option("--format", help="how to print them")
    ] = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="file to write (needed for parquet)")] = None,
    as_json: AsJson = False,
) -> None:
    """A row per trial, with dotted columns; as a table, the frontier of its cells."""
    from orchestrator.client import open_client
    from orchestrator.errors import RequestError
    from orchestrator.results import write_csv, write_parquet
    from orchestrator.settings import Settings

    client = open_client(Settings.read())
    chosen = "json" if as_json else output_format
    if chosen == "table":
        print_rich(client.summary(sweep))
        return
    rows = client.results(sweep)
    if chosen == "parquet":
        if out is None:
            raise RequestError("parquet is not text: name a file with --out results.parquet")
        write_parquet(rows, out)
    elif chosen == "csv":
        text = write_csv(rows, out)
        if out is None:
            sys.stdout.write(text)
    elif out is not None:
        import json

        out.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    else:
        print_json(rows)
    if out is not None:
        say(f"wrote {len(rows)} rows to {out}")


def report(
    sweep: Annotated[
        str, typer.Argument(help="a sweep's id, or `last`; or a suite that asks a question", metavar="SWEEP")
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="folder to write to")] = None,
    show: Annotated[bool, typer.Option("--open", help="open the report in a browser")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw a sweep's report anew: one HTML file that works offline, figures and tables beside it.

    Its studies, if it tunes, are brought up to date in Optuna's own store. Of a suite that asks a question an article
    is written, a short paper of what its newest sweeps say.
    """
    from orchestrator.articles import names_suite
    from orchestrator.client import open_client
    from orchestrator.settings import Settings

    if names_suite(sweep):
        _write_article(sweep, out, show, as_json)
        return
    drawing = open_client(Settings.read()).report(sweep, out)
    if drawing.unmirrored is not None:
        say(f"the studies of sweep {drawing.sweep} are not in Optuna's store: {drawing.unmirrored}")
    if as_json:
        print_json({"sweep": drawing.sweep, "report": str(drawing.path)})
    else:
        typer.echo(str(drawing.path))
    if show:
        typer.launch(drawing.path.absolute().as_uri())


def _write_article(suite: str, out: Path | None, show: bool, as_json: bool) -> None:
    from orchestrator.articles import write_article
    from orchestrator.client import refuse_server
    from orchestrator.settings import Settings

    settings = Settings.read()
    refuse_server(settings, "report")
    written = write_article(settings, suite, out)
    if written.missing:
        say(f"without a sweep: {', '.join(written.missing)}")
    if as_json:
        print_json({"suite": suite, "report": str(written.path), "missing": list(written.missing)})
    else:
        typer.echo(str(written.path))
    if show:
        typer.launch(written.path.absolute().as_uri())
