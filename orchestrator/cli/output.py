"""Printing: results to stdout, everything said along the way to stderr, JSON where asked for."""

from __future__ import annotations

import json
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Bar

    from orchestrator.scheduler import Progress

PLAIN_LINE_SECONDS = 5.0


def fail(message: str, code: int) -> NoReturn:
    """Print `message` to stderr and exit with `code`."""
    typer.echo(message, err=True)
    sys.exit(code)


def say(message: str) -> None:
    """Tell the user something that is not the result."""
    typer.echo(message, err=True)


def print_json(tree: Any) -> None:
    """`tree` as one line of JSON on stdout."""
    typer.echo(json.dumps(tree, ensure_ascii=False, allow_nan=False))


def print_rich(*renderables: RenderableType) -> None:
    """Tables and text on stdout: as wide as the terminal, or 100 columns where there is none."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    for renderable in renderables:
        console.print(renderable)


class ProgressView:
    """Shows a sweep's progress on stderr: a bar with ETA on a terminal, a plain line now and then elsewhere."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: Bar | None = None
        self._last_line = 0.0

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("trials"),
                TextColumn("ETA"),
                TimeRemainingColumn(elapsed_when_finished=True),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task(f"{self._label}: starting workers", total=None)
            self._bar.start()
        else:
            say(f"{self._label}: starting workers")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, progress: Progress) -> None:
        """Show `progress`."""
        finished = progress.done + progress.failed
        failed = f", {progress.failed} failed" if progress.failed else ""
        if self._bar is not None:
            self._bar.update(self._task, completed=finished, total=progress.total, description=f"{self._label}{failed}")
            return
        now = time.monotonic()
        if now - self._last_line >= PLAIN_LINE_SECONDS or finished == progress.total:
            self._last_line = now
            say(f"{self._label}: {finished} of {progress.total} trials{failed}, ETA {_eta(progress)}")


def _eta(progress: Progress) -> str:
    left = progress.total - progress.done - progress.failed
    if not progress.computed:
        return "unknown"
    return duration(left * progress.seconds / progress.computed)


def duration(seconds: float) -> str:
    """`seconds` for people: 4.2 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
