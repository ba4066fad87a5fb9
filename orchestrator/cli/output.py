"""Printing: results to stdout, everything said along the way to stderr, JSON where asked for."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import typer

from orchestrator.secrecy import without_secrets

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from orchestrator.job import Progress

PLAIN_LINE_SECONDS = 5.0


def fail(message: str, code: int) -> NoReturn:
    """Print `message` to stderr, without secrets, and exit with `code`."""
    typer.echo(without_secrets(message), err=True)
    sys.exit(code)


def say(message: str) -> None:
    """Tell the user something that is not the result, without secrets."""
    typer.echo(without_secrets(message), err=True)


def print_json(tree: Any) -> None:
    """`tree` as one line of JSON on stdout."""
    typer.echo(json.dumps(tree, ensure_ascii=False, allow_nan=False))


def print_rich(*renderables: RenderableType) -> None:
    """Tables and text on stdout: as wide as the terminal, or 100 columns where there is none."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False, markup=False, emoji=False)
    for renderable in renderables:
        console.print(renderable)


class ProgressView:
    """Shows sweeps' progress on stderr: a bar with ETA on a terminal, a plain line now and then elsewhere."""

    def __init__(self) -> None:
        self._bar: Bar | None = None
        self._tasks: dict[str, TaskID] = {}
        self._last_line = 0.0
        self._awaited: dict[str, str | None] = {}

    def __enter__(self) -> Self:
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
        if sys.stderr.isatty():
            self._draw(progress, finished, failed)
            return
        if self._tell_what_is_awaited(progress, say):
            return
        if progress.seconds == 0:
            say(f"{progress.name}: {progress.total - finished} trials to compute, starting workers")
            return
        now = time.monotonic()
        if now - self._last_line >= PLAIN_LINE_SECONDS or progress.is_over:
            self._last_line = now
            eta = "" if progress.is_over else f", ETA {_eta(progress)}"
            growth = f"{progress.growth}; " if progress.growth else ""
            say(f"{progress.name}: {growth}{finished} of {progress.total} trials{failed}{eta}")

    def _tell_what_is_awaited(self, progress: Progress, tell: Callable[[str], None]) -> bool:
        """Tell why trials have no worker to go to, and when they have one again; whether there was such news."""
        if progress.waiting == self._awaited.get(progress.sweep):
            return False
        self._awaited[progress.sweep] = progress.waiting
        tell(f"{progress.name}: {'no longer waiting' if progress.waiting is None else f'waiting: {progress.waiting}'}")
        return True

    def _draw(self, progress: Progress, finished: int, failed: str) -> None:
        if self._bar is None:
            self._bar = _bar()
            self._bar.start()
        if progress.sweep not in self._tasks:
            self._tasks[progress.sweep] = self._bar.add_task(progress.name, total=progress.total, eta="")
        self._tell_what_is_awaited(progress, self._bar.console.print)
        growth = f", {progress.growth}" if progress.growth else ""
        label = "starting workers" if progress.seconds == 0 else f"{progress.name}{growth}{failed}"
        self._bar.update(
            self._tasks[progress.sweep],
            completed=finished,
            total=progress.total,
            description=label,
            eta="" if progress.is_over else f"ETA {_eta(progress)}",
        )


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("trials"),
        TextColumn("{task.fields[eta]}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )


def _eta(progress: Progress) -> str:
    return "unknown" if progress.left is None else duration(progress.left)


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
