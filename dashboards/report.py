"""The report of a frontier sweep: one HTML page that needs nothing else, with figures and tables in files beside it."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dashboards import drawing
from dashboards.figures import write_figures
from dashboards.glossary import TERMS, mechanism_definitions, metric_definitions
from dashboards.page import hardware_table, panel_page, problems
from dashboards.steps import recalls_of
from dashboards.style import DARK_COLOURS, DASHES, LIGHT_COLOURS, MARKERS, band_opacity, styles
from dashboards.tables import as_csv, mark_methods, metric_names, rows_of, write_tables
from dashboards.text import duration
from dashboards.words import overview
from tasks.summary import SIZE_AXES, ReportInput

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


def render_report(report: ReportInput, folder: Path) -> Path:
    """Write the report of `report` into `folder` (made if missing) and return the path of `report.html`.

    The page is self-contained: it makes no request, runs no script but its own (a content security policy with hashes
    holds that), and still shows figures and tables where scripts are off. Beside it stand `frontier-slots` and
    `frontier-bytes` as PNG, SVG and PDF (numbered where there are several panels) and `frontier.csv`, `.md`, `.tex`.
    All links are relative, so the folder can be moved. Equal input gives equal files.

    Sizes are in slots and bytes, recall is a share of 1, times are in UTC.

    Raises OSError if `folder` cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [*write_figures(report.summary, folder), *write_tables(report.summary, folder)]
    page = folder / "report.html"
    page.write_text(render_page(report, [file.name for file in files]), encoding="utf-8")
    return page


def render_page(report: ReportInput, files: list[str]) -> str:
    """The HTML of `report`; `files` are the names of the files beside it."""
    from markupsafe import Markup

    panels = report.summary.panels
    style_of = styles(panels)
    points = [point for panel in panels for _, point in rows_of(panel)]
    metrics = tuple(dict.fromkeys(name for panel in panels for name in recalls_of(panel))) or ("recall",)
    methods = mark_methods(report.summary)
    style = palette_css() + (TEMPLATES / "report.css").read_text(encoding="utf-8")
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            overview=overview(report),
            panels=[panel_page(panel, metrics, style_of, methods) for panel in panels],
            problems=problems(report.summary),
            hardware=hardware_table(report.hardware),
            axes=SIZE_AXES,
            metrics=metrics,
            methods=methods,
            markers=MARKERS,
            files=files,
            csv=base64.b64encode(as_csv(report.summary).encode()).decode(),
            definitions={
                "Terms": TERMS,
                "Metrics": metric_definitions(metric_names(points)),
                "Mechanisms": mechanism_definitions(curve.mechanism for panel in panels for curve in panel.curves),
            },
            style=Markup(style),
            style_hash=content_hash(style),
            script=Markup(script),
            script_hash=content_hash(script),
        )
    )


def _environment() -> Environment:
    """Jinja with automatic escaping everywhere; only our own style and script are marked as safe."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        box=_BOX, n=drawing.shortest, duration=duration, moment=moment, band_opacity=band_opacity
    )
    return environment


_BOX = {"left": drawing.LEFT, "right": drawing.RIGHT, "top": drawing.TOP, "bottom": drawing.BOTTOM}


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


def moment(text: str) -> str:
    """An ISO 8601 time as `2026-07-14 09:12:03 UTC`; anything else as it is."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return text
    zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return f"{zoned.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
