"""The command about a sweep's log: logs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.output import print_json, say
from orchestrator.cli.spec_commands import AsJson
from orchestrator.cli.sweep_commands import SweepName

if TYPE_CHECKING:
    from orchestrator.logs import Entry

COLOURS = {"warning": "yellow", "error": "red"}
PLACED = frozenset({"time", "level", "event", "sweep", "message", "lines"})
"""Fields that have a place of their own in a readable line, or go without saying."""

CONTROLS = {code: f"\\x{code:02x}" for code in (*range(9), *range(10, 32), *range(127, 160))}
"""What a program printed must not command the reader's terminal."""


def register(app: typer.Typer) -> None:
    """Add this command to `app`."""
    app.command()(logs)


def logs(
    sweep: SweepName,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="go on until the sweep has ended")] = False,
    tail: Annotated[int | None, typer.Option(min=1, help="begin with the last N entries", metavar="N")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what happened in a sweep: batches, workers, failures with the last lines they printed."""
    from orchestrator.client import open_client
    from orchestrator.settings import Settings

    log = open_client(Settings.read()).log(sweep, tail=tail, follow=follow)
    try:
        shown = _show(log.entries, print_json if as_json else _print_readable)
    except KeyboardInterrupt:
        raise typer.Exit from None
    if not shown:
        say(f"sweep {log.sweep} has no log {log.place}")
    if rest := log.rest():
        say(f"it was run by {', '.join(map(_harmless, rest))} too: what these wrote of its log lies there")


def _show(entries: Iterable[Entry], show: Callable[[Entry], None]) -> bool:
    """Show each of `entries`; whether there were any."""
    shown = False
    for entry in entries:
        show(entry)
        shown = True
    return shown


def _print_readable(entry: Entry) -> None:
    """Time (local), level, event and fields on one line, then indented whatever takes several lines."""
    moment = datetime.fromisoformat(entry["time"]).astimezone().replace(tzinfo=None)
    level, message = entry["level"], entry.get("message", "").splitlines()
    head = [
        typer.style(moment.isoformat(" ", "milliseconds"), dim=True),
        typer.style(f"{level:<7}", fg=COLOURS.get(level)),
        typer.style(_harmless(entry["event"]), bold=True),
        *(f"{name}={_harmless(_short(value))}" for name, value in entry.items() if name not in PLACED),
    ]
    below = entry.get("lines", [])
    if len(message) == 1:
        head.append(_harmless(message[0]))
    else:
        below = message + below
    # Where there is no terminal, colours are taken out by echo.
    colour = False if os.environ.get("NO_COLOR") else None
    typer.echo("\n".join(["  ".join(head), *(f"    {_harmless(line)}" for line in below)]), color=colour)


def _short(value: Any) -> str:
    return value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False)


def _harmless(text: str) -> str:
    return text.translate(CONTROLS)
