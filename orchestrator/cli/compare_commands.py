"""The command that compares devices, machines and sweeps."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestrator.cli.output import print_json, print_rich, say
from orchestrator.cli.price_options import Price, prices_given
from orchestrator.cli.spec_commands import AsJson
from orchestrator.cli.sweep_commands import SweepName
from orchestrator.exit_codes import DISAGREED


def register(app: typer.Typer) -> None:
    """Add this command to `app`."""
    app.command()(compare)


def compare(
    sweep: SweepName,
    other: Annotated[
        str | None, typer.Argument(help="another sweep; without it the first one's devices", metavar="[SWEEP]")
    ] = None,
    by: Annotated[
        Literal["device", "machine"] | None, typer.Option(help="what one sweep is split by; devices if it has several")
    ] = None,
    price: Price = None,
    tolerance: Annotated[
        float | None,
        typer.Option(min=0.0, help="largest difference of means that is none: absolute up to 1, relative above"),
    ] = None,
    output_format: Annotated[
        Literal["table", "csv", "json"], typer.Option("--format", help="how to print the comparison")
    ] = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="folder for a page with tables and files")] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="exit with 1 unless both have all trials, and every cell is within the tolerance"),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare cell by cell what two devices, machines or sweeps made of the same trials, and what it cost them."""
    from orchestrator.client import open_client
    from orchestrator.client.base import Comparing
    from orchestrator.results import write_csv
    from orchestrator.settings import Settings

    client = open_client(Settings.read())
    asked = Comparing((sweep,) if other is None else (sweep, other), by, prices_given(price or []), tolerance)
    compared = client.compare(asked)
    path = client.comparison_page(asked, out) if out is not None else None
    chosen = "json" if as_json else output_format
    if chosen == "json":
        tree = {"sweeps": list(compared.sweeps), "comparisons": compared.records}
        print_json({**tree, "report": path and str(path)})
    elif chosen == "csv":
        sys.stdout.write(write_csv(compared.rows, None))
    else:
        print_rich(compared.tables)
    if path is not None:
        say(f"wrote {path}")
    if check and not compared.agree:
        raise typer.Exit(DISAGREED)
