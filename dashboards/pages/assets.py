"""Style sheet and script of the service's pages, each under a name that changes with what it holds; and the icon."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dashboards.rendering import palette_css, read

STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True)
class Asset:
    """A file that pages load. `name` may be kept for ever: another text has another name."""

    name: str
    text: str
    media_type: str


@cache
def style() -> Asset:
    """The look of reports, and what pages have beside it."""
    parts = (palette_css(), read("report.css"), read("certificate.css"), _read("pages.css"))
    return _asset("style", "css", "".join(parts), "text/css")


@cache
def script() -> Asset:
    """What keeps live parts of pages up to date."""
    return _asset("pages", "js", _read("pages.js"), "text/javascript")


@cache
def icon() -> Asset:
    """What browsers show beside the title. They ask for it by a name of their own where no page names another."""
    return Asset("favicon.ico", _read("icon.svg"), "image/svg+xml")


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def _asset(stem: str, suffix: str, text: str, media_type: str) -> Asset:
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Asset(f"{stem}-{digest}.{suffix}", text, media_type)
