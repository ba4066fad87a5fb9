"""Commands about sweeps: run, submit, status, results, report."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from orchestrator.cli.output import print_json, print_rich, say
from orchestrator.cli.spec_commands import AsJson, Overrides, SpecName

if TYPE_CHECKING:
    from orchestrator.plan import Plan

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
    as_json: AsJson = False,
) -> None:
    """Run a sweep in the foreground: submit the spec (or take a queued sweep), compute what is missing, report.

    A suite's sweeps run together.
    """
    from orchestrator.cli.running import finish, run_sweeps
    from orchestrator.settings import Settings

    settings = Settings.read()
    if executor == "inline":
        settings = replace(settings, ray_address=None)  # this machine is the fleet
    store, sweeps, left_out = _sweeps_to_run(settings, what, overrides or [], no_cache, wait)
    for sweep in map(store.sweep, sweeps):
        say(f"sweep {sweep.id} ({sweep.name}): {sweep.trials} trials, {sweep.reused} of {sweep.trials} reused")
    outcomes = run_sweeps(settings, store, sweeps, executor)
    suite = what if len(sweeps) + len(left_out) > 1 else None
    finish(sorted(outcomes, key=lambda one: sweeps.index(one.sweep.id)), as_json, suite, left_out)


def _sweeps_to_run(
    settings: Any, what: str, overrides: list[str], no_cache: bool, wait: float | None
) -> tuple[Any, list[str], dict[str, str]]:
    """The store, the ids of the sweeps that `what` names, submitted now if it is a spec or a suite, and what of a suite
    is left out, with the reasons.
    """
    from orchestrator.errors import RequestError
    from orchestrator.lacking import refuse_lacking
    from orchestrator.requests import existing_store, find_sweep, is_spec, load_specs
    from orchestrator.store.store import Store

    if not is_spec(what):
        try:
            store = existing_store(settings)
            sweep = find_sweep(store, what)
        except RequestError:
            load_specs(what)  # names the ready-made specs in its error
            raise
        if overrides or no_cache or wait is not None:
            raise RequestError(
                "--set, --no-cache and --wait belong to a spec; a sweep keeps what it was submitted with"
            )
        return store, [sweep.id], {}
    plans = _checked_plans(settings, what, overrides, wait)
    left_out: dict[str, str] = {}
    if len(plans) > 1:
        plans, left_out = _whose_data_are_here(plans)
    else:
        [plan] = plans.values()
        refuse_lacking(plan, settings, use_cache=not no_cache)
    from orchestrator.runner import submit_plan

    store = Store.open(settings.database_url)
    return store, [submit_plan(store, plan, use_cache=not no_cache).sweep for plan in plans.values()], left_out


def _whose_data_are_here(plans: dict[str, Plan]) -> tuple[dict[str, Plan], dict[str, str]]:
    """Those of a suite's plans that can run, and why the others cannot: these do not keep those from it."""
    from orchestrator.errors import RequestError
    from orchestrator.lacking import part_lacking

    here, lacking = part_lacking(plans)
    for name, reason in lacking.items():
        say(f"left out {name}: {reason}")
    if not here:
        raise RequestError("the data of no sweep of the suite can be had")
    return here, lacking


def _checked_plans(settings: Any, what: str, overrides: list[str], wait: float | None) -> dict[str, Plan]:
    """The plans of the spec or suite that `what` names, none of which is refused."""
    from orchestrator.machines import planned
    from orchestrator.preflight import check_before_submitting
    from orchestrator.requests import load_specs

    specs = load_specs(what, overrides)
    plans = {
        name: planned(replace(spec, policy=replace(spec.policy, wait=wait or 0.0)), settings)
        for name, spec in specs.items()
    }
    for plan in plans.values():
        check_before_submitting(plan, settings)
    return plans


def submit(
    spec: SpecName,
    overrides: Overrides = None,
    no_cache: NoCache = False,
    wait: Wait = None,
    as_json: AsJson = False,
) -> None:
    """Queue a sweep and print its id; `slotsweep run ID` executes it. Of a suite, one id a line."""
    from orchestrator.runner import submit_plan
    from orchestrator.settings import Settings
    from orchestrator.store.store import Store

    settings = Settings.read()
    plans = _checked_plans(settings, spec, overrides or [], wait)
    store = Store.open(settings.database_url)
    for plan in plans.values():
        submitted = submit_plan(store, plan, use_cache=not no_cache)
        say(f"queued {submitted.trials} trials, {submitted.reused} of {submitted.trials} reused")
        if as_json:
            print_json({"sweep": submitted.sweep, "trials": submitted.trials, "reused": submitted.reused})
        else:
            typer.echo(submitted.sweep)


def status(
    sweep: Annotated[str | None, typer.Argument(help="a sweep's id, or `last`; all sweeps if left out")] = None,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="repeat until the sweep has ended")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the state of one sweep or of all."""
    from orchestrator.requests import existing_store, find_sweep
    from orchestrator.settings import Settings
    from orchestrator.store.states import ENDED

    settings = Settings.read()
    if sweep is None and settings.database_file is not None and not settings.database_file.exists():
        _print_status([]) if not as_json else print_json([])
        return
    store = existing_store(settings)
    while True:
        rows = store.sweeps() if sweep is None else [find_sweep(store, sweep)]
        if as_json:
            print_json([_status(row) for row in rows])
        else:
            _print_status(rows)
        if not watch or all(row.state in ENDED for row in rows):
            return
        time.sleep(2.0)


def _status(row: Any) -> dict[str, Any]:
    counts = row.counts
    return {
        "sweep": row.id,
        "name": row.name,
        "kind": row.kind,
        "state": row.state,
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


def _print_status(rows: list[Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not rows:
        say("no sweep yet: `slotsweep run quick-start` makes one")
        return
    table = Table("sweep", "name", "state", "trials", "done", "failed", "reused", "submitted", box=None, pad_edge=False)
    for row in rows:
        submitted = datetime.fromtimestamp(row.created).isoformat(" ", "minutes")
        numbers = (row.trials, row.counts.done, row.counts.failed, row.reused)
        table.add_row(row.id, Text(row.name), row.state, *map(str, numbers), submitted)
    print_rich(table)


def results(
    sweep: SweepName,
    output_format: Annotated[
        Literal["table", "csv", "parquet", "json"], typer.Option("--format", help="how to print them")
    ] = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="file to write (needed for parquet)")] = None,
    as_json: AsJson = False,
) -> None:
    """A row per trial, with dotted columns; as a table, the frontier of its cells."""
    from orchestrator.errors import RequestError
    from orchestrator.requests import existing_store, find_sweep
    from orchestrator.results import result_rows, write_csv, write_parquet
    from orchestrator.settings import Settings

    store = existing_store(Settings.read())
    row = find_sweep(store, sweep)
    chosen = "json" if as_json else output_format
    if chosen == "table":
        from dashboards.terminal import summary_tables
        from orchestrator.reporting import summary_of

        print_rich(summary_tables(summary_of(store, row)))
        return
    rows = list(result_rows(store, row))
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
    sweep: SweepName,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="folder to write to")] = None,
    show: Annotated[bool, typer.Option("--open", help="open the report in a browser")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw a sweep's report anew: one HTML file that works offline, figures and tables beside it.

    Its studies, if it tunes, are brought up to date in Optuna's own store.
    """
    from orchestrator.reporting import write_own_report, write_report
    from orchestrator.requests import existing_store, find_sweep
    from orchestrator.settings import Settings
    from tasks.kind import KINDS

    settings = Settings.read()
    store = existing_store(settings)
    row = find_sweep(store, sweep)
    path, _ = write_report(store, row, out) if out else write_own_report(store, row, settings)
    if out is None:
        store.set_report(row.id, str(path))
    if KINDS.implementation(row.kind).proposes:
        from orchestrator.tuner.mirroring import catch_up

        if why := catch_up(store, row, settings):
            say(f"the studies of sweep {row.id} are not in Optuna's store: {why}")
    if as_json:
        print_json({"sweep": row.id, "report": str(path)})
    else:
        typer.echo(str(path))
    if show:
        typer.launch(path.as_uri())
