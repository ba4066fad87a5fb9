"""The command that compares devices, machines and sweeps."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestrator.cli.output import print_json, print_rich, say
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
    price: Annotated[
        list[str] | None, typer.Option(help="what a worker of a device class costs an hour", metavar="DEVICE=PRICE")
    ] = None,
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
    from dashboards.terminal import summary_tables
    from orchestrator.compare import compare_sweeps, sections_of, write_comparison
    from orchestrator.requests import existing_store, find_sweep
    from orchestrator.results import write_csv
    from orchestrator.settings import Settings
    from tasks.comparing_sections import comparison_record, comparison_rows
    from tasks.summary import Summary

    store = existing_store(Settings.read())
    sweeps = [find_sweep(store, name) for name in (sweep, other) if name is not None]
    comparisons = compare_sweeps(store, sweeps, by, _prices(price or []), tolerance)
    path = write_comparison(store, sweeps, comparisons, out) if out is not None else None
    chosen = "json" if as_json else output_format
    if chosen == "json":
        records = [comparison_record(comparison) for comparison in comparisons]
        print_json({"sweeps": [one.id for one in sweeps], "comparisons": records, "report": path and str(path)})
    elif chosen == "csv":
        sys.stdout.write(write_csv(list(comparison_rows(comparisons)), None))
    else:
        print_rich(summary_tables(Summary((), sections=sections_of(comparisons))))
    if path is not None:
        say(f"wrote {path}")
    if check and not all(comparison.agree for comparison in comparisons):
        raise typer.Exit(DISAGREED)


def _prices(given: list[str]) -> dict[str, float]:
    """Prices by device class. Raises RequestError for one that is not a number."""
    from orchestrator.errors import RequestError

    prices = {}
    for text in given:
        device, _, number = text.partition("=")
        try:
            prices[device.strip()] = float(number)
        except ValueError:
            raise RequestError(f"--price {text}: expected DEVICE=PRICE, such as --price cuda=2.5") from None
        if not 0.0 < prices[device.strip()] < float("inf"):
            raise RequestError(f"--price {text}: a price is a number above 0")
    return prices
