"""The report of a sweep: one HTML page that needs nothing else, with figures and tables in files beside it."""

from __future__ import annotations

from pathlib import Path

from dashboards.figures import write_figures
from dashboards.glossary import documented, mechanism_definitions, metric_definitions, term_definitions
from dashboards.page import hardware_table, panel_page, problems
from dashboards.rendering import embedded, render
from dashboards.sections import check_sections, section_page
from dashboards.steps import recalls_of
from dashboards.style import styles
from dashboards.tables import as_csv, interval_methods, mark_methods, metric_names, rows_of, write_tables
from dashboards.words import overview
from tasks.summary import ReportInput, Summary


def render_report(report: ReportInput, folder: Path) -> Path:
    """Write the report of `report` into `folder` (made if missing) and return the path of `report.html`.

    The page is self-contained: it makes no request, runs no script but its own (a content security policy with hashes
    holds that), and still shows figures and tables where scripts are off. Beside it stand `frontier-slots` and
    `frontier-bytes` as PNG, SVG and PDF (numbered where there are several panels) and `frontier.csv`, `.md`, `.tex`, if
    there are panels; and for each section its charts and its table under its name, in the same formats.
    All links are relative, so the folder can be moved. Equal input gives equal files.

    Sizes are in slots and bytes, recall is a share of 1, times are in UTC.

    Raises OSError if `folder` cannot be written, and ValueError for a section whose name cannot name a file.
    """
    check_sections(report.summary)
    folder.mkdir(parents=True, exist_ok=True)
    files = [*write_figures(report.summary, folder), *write_tables(report.summary, folder)]
    page = folder / "report.html"
    page.write_text(render_page(report, [file.name for file in files]), encoding="utf-8")
    return page


def render_page(report: ReportInput, files: list[str]) -> str:
    """The HTML of `report`; `files` are the names of the files beside it."""
    panels, sections = report.summary.panels, report.summary.sections
    style_of = styles(panels, [chart for section in sections for chart in section.charts])
    metrics = tuple(dict.fromkeys(name for panel in panels for name in recalls_of(panel))) or ("recall",)
    methods = mark_methods(report.summary)
    of_points = interval_methods(report.summary)
    return render(
        "report.html.j2",
        ("report.css",),
        ("report.js",),
        report=report,
        overview=overview(report),
        panels=[panel_page(panel, report.summary.axes, metrics, style_of, methods) for panel in panels],
        sections=[section_page(section, style_of, methods) for section in sections],
        problems=problems(report.summary),
        hardware=hardware_table(report.hardware),
        axes=report.summary.axes,
        metrics=metrics,
        marked=len(methods) > 1,
        methods={letter: method for letter, method in methods.items() if method in of_points},
        files=files,
        csv=embedded(as_csv(report.summary)),
        definitions=_definitions(report.summary),
    )


def _definitions(summary: Summary) -> dict[str, dict[str, str]]:
    """What the words of the page mean, by kind of word."""
    metrics = metric_names(point for panel in summary.panels for _, point in rows_of(panel))
    mechanisms = [curve.mechanism for panel in summary.panels for curve in panel.curves]
    for section in summary.sections:
        if grid := section.table:
            metrics += (column.partition(",")[0] for column in grid.columns)
            mechanisms += documented(item for row in grid.rows for item in row if isinstance(item, str))
    return {
        "Terms": term_definitions(frontier=bool(summary.panels)),
        "Metrics": metric_definitions([*metrics, "chance"] if summary.panels else metrics),
        "Mechanisms": mechanism_definitions(mechanisms),
    }
