"""What all pages of the service share: the frame around them, and their templates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from dashboards.pages.assets import script, style
from dashboards.rendering import TEMPLATES, environment

PAGES = Path(__file__).parent / "templates"

Area = Literal["sweeps", "workers", "compare", "claims", ""]
"""Which entry of the navigation a page belongs to."""

AREAS: tuple[tuple[Area, str, str], ...] = (
    ("sweeps", "/", "Sweeps"),
    ("workers", "/workers", "Workers"),
    ("compare", "/compare", "Compare"),
    ("claims", "/claims", "Claims"),
)


@dataclass(frozen=True)
class Visitor:
    """Who looks. csrf: what forms of their session send back."""

    user: str
    role: str
    csrf: str


@dataclass(frozen=True)
class Link:
    """Somewhere to go. note: what else is to be said of it."""

    text: str
    address: str
    note: str = ""


@dataclass(frozen=True)
class Live:
    """A part of a page that is fetched anew from `address` every `seconds`; 0: it stays as it is."""

    address: str
    seconds: float


def page(template: str, visitor: Visitor | None, area: Area, **values: Any) -> str:
    """A whole page. visitor: None where nobody is logged in."""
    return _render(
        template,
        visitor=visitor,
        area=area,
        areas=AREAS,
        style=style().name,
        script=script().name,
        now=iso(datetime.now(UTC).timestamp()),
        **values,
    )


def part(template: str, **values: Any) -> str:
    """A part of a page that is fetched by itself."""
    return _render(template, **values)


def _render(template: str, **values: Any) -> str:
    return environment(PAGES, TEMPLATES).get_template(template).render(**values)


def headline(message: str) -> str:
    """One line of a message: the first, or of a traceback the one that names the exception."""
    lines = [line for line in message.splitlines() if line.strip()] or [""]
    if not lines[0].startswith("Traceback "):
        return lines[0]
    calls = [index for index, line in enumerate(lines) if line.startswith("  File ")]
    after = lines[calls[-1] :] if calls else lines[1:]
    return next((line for line in after if not line[0].isspace()), lines[-1])


def iso(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
