"""What every page has in common: its templates, its colours, and the hashes that its security policy names."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboards import charts, drawing
from dashboards.style import DARK_COLOURS, DASHES, LIGHT_COLOURS, MARKERS, band_opacity
from dashboards.text import duration

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"

_BOX = {"left": drawing.LEFT, "right": drawing.RIGHT, "top": drawing.TOP, "bottom": drawing.BOTTOM}
_CHART_BOX = {
    "width": charts.WIDTH,
    "height": charts.HEIGHT,
    "right": charts.RIGHT,
    "top": charts.TOP,
    "bottom": charts.BOTTOM,
}


def render(template: str, styles: tuple[str, ...], scripts: tuple[str, ...], **values: Any) -> str:
    """The page that `template` makes of `values`, with the style sheets and scripts named; all are files of TEMPLATES.

    The page's content security policy lets nothing else run.
    """
    from markupsafe import Markup

    style = palette_css() + "".join(read(name) for name in styles)
    script = "".join(read(name) for name in scripts)
    return (
        environment(TEMPLATES)
        .get_template(template)
        .render(
            style=Markup(style),
            style_hash=content_hash(style),
            script=Markup(script),
            script_hash=content_hash(script),
            **values,
        )
    )


def read(name: str) -> str:
    """The text of a file of TEMPLATES."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


@cache
def environment(*folders: Path) -> Environment:
    """Jinja over the templates in `folders`, with automatic escaping everywhere; our own style and script excepted."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        box=_BOX,
        chart_box=_CHART_BOX,
        n=drawing.shortest,
        duration=duration,
        moment=moment,
        band_opacity=band_opacity,
        markers=MARKERS,
    )
    return made


def palette_css() -> str:
    """The curve colours as classes c0, c1, ... and dash patterns as d1, d2, ...; print uses the light colours."""

    def rules(colours: tuple[str, ...]) -> str:
        return "".join(f".c{i}{{color:{colour}}}" for i, colour in enumerate(colours))

    dashes = "".join(
        f".d{i} .line{{stroke-dasharray:{' '.join(map(str, dash))}}}" for i, dash in enumerate(DASHES) if dash
    )
    return f"{dashes}{rules(LIGHT_COLOURS)}\n@media screen and (prefers-color-scheme: dark){{{rules(DARK_COLOURS)}}}\n"


def content_hash(text: str) -> str:
    """`text` as a source expression of a content security policy (CSP level 3, section 2.3.1)."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def embedded(text: str) -> str:
    """`text` in base 64, for a link that holds what it leads to."""
    return base64.b64encode(text.encode()).decode()


def moment(text: str) -> str:
    """An ISO 8601 time as `2026-07-14 09:12:03 UTC`; anything else as it is."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return text
    zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return f"{zoned.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
