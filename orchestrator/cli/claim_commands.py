"""The command that re-measures a paper's claims and writes the certificate."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.control_commands import ExecutorOption
from orchestrator.cli.output import duration, print_json, print_rich, say
from orchestrator.cli.spec_commands import AsJson
from orchestrator.exit_codes import ALL_DONE, TRIALS_FAILED


def register(app: typer.Typer) -> None:
    """Add this command to `app`."""
    app.command()(claims)


def claims(
    paper: Annotated[str, typer.Argument(help="the paper, e.g. dpcache", metavar="PAPER")],
    no_run: Annotated[bool, typer.Option("--no-run", help="judge by what has been measured; compute nothing")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="folder for the certificate")] = None,
    executor: ExecutorOption = "ray",
    as_json: AsJson = False,
) -> None:
    """Measure what a paper claims, as far as that has not been done, and say which claims hold.

    Writes the certificate as HTML, Markdown and JSON.
    """
    from dashboards.certificate import certificate_table, render_certificate
    from orchestrator.claims import certificate_record, known_paper
    from orchestrator.cli.running import run_sweeps
    from orchestrator.client import open_client
    from orchestrator.settings import Settings

    began = time.monotonic()
    settings = Settings.read()
    folder, known = _made(out or settings.home / "claims" / paper), known_paper(paper)
    client = open_client(settings, executor)
    measurements = client.measurements(paper, submit=not no_run)
    say(f"{paper}: {len(known.claims)} claims, {len(measurements.sweeps)} sweeps, {len(measurements.missing)} to run")
    for name, reason in measurements.lacking.items():
        say(f"left out {name}: {reason}")
    for name, seeds in measurements.other.items():
        say(f"{name}: judged {seeds}; `slotsweep run {name}` measures the others")
    outcomes = []
    if measurements.missing and not no_run:
        outcomes = run_sweeps(client, measurements.missing)
    seconds = time.monotonic() - began if outcomes else None
    certificate = client.certificate(paper, measurements, folder, seconds)
    path = render_certificate(certificate, folder)
    if as_json:
        print_json(certificate_record(certificate) | {"certificate": str(path)})
    else:
        print_rich(certificate_table(certificate))
        if seconds is not None:
            typer.echo(f"measured in {duration(seconds)}")
        typer.echo(f"certificate    {path}")
    complete = all(outcome.sweep.state == "done" for outcome in outcomes)
    raise typer.Exit(ALL_DONE if complete else TRIALS_FAILED)


def _made(folder: Path) -> Path:
    """`folder`, which is there now. Raises RequestError if it cannot be."""
    from orchestrator.errors import RequestError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"no certificate can be written to {folder}: {error.strerror}") from error
    return folder
