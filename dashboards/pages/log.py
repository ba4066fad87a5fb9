"""The page of a sweep's log: its last entries, newest first."""

from __future__ import annotations

from dataclasses import dataclass

from dashboards.pages.frame import Live, Visitor, page, part
from dashboards.pages.sweeps import SweepLine


@dataclass(frozen=True)
class LogLine:
    """An entry.

    key     tells it from the others
    fields  what has no place of its own
    below   a message of several lines, and what was printed; `message` is one line of it
    """

    key: str
    time: str
    level: str
    event: str
    fields: tuple[tuple[str, str], ...]
    message: str
    below: str


@dataclass(frozen=True)
class LogView:
    """The last entries of a sweep's log.

    warnings   whether only those that warn are
    elsewhere  other hosts that have entries
    """

    line: SweepLine
    entries: tuple[LogLine, ...]
    warnings: bool
    live: Live
    elsewhere: tuple[str, ...] = ()


def log_page(view: LogView, visitor: Visitor) -> str:
    """The page of `view`."""
    return page("log.html.j2", visitor, "sweeps", view=view)


def log_part(view: LogView) -> str:
    """Its entries alone."""
    return part("log_part.html.j2", view=view)
