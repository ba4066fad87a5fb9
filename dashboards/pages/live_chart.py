"""The main chart of a sweep as its report draws it, small enough to be drawn again and again while trials finish."""

from __future__ import annotations

from dataclasses import replace

from dashboards.page import panel_page
from dashboards.pages.frame import part
from dashboards.sections import section_page
from dashboards.steps import recalls_of
from dashboards.style import styles
from dashboards.text import plural
from tasks.summary import Section, Summary

MOST_PANELS = 4
MOST_CHARTS = 2
MOST_LEADING = 4


def live_chart(summary: Summary) -> str:
    """HTML of the first frontiers of `summary`, or where it has none, of the first section's charts or table.

    Below stand the first of the sections that say what the job was for, such as the best settings of a study.
    """
    panels = [panel for panel in summary.panels if panel.asks]
    shown, left = panels[:MOST_PANELS], len(panels[MOST_PANELS:])
    charted = None if panels else _charted(summary)
    leading = [one for one in summary.sections if one.leading][:MOST_LEADING]
    sections = [*([] if charted is None or charted in leading else [charted]), *leading]
    drawn = [replace(one, charts=one.charts[:MOST_CHARTS]) for one in sections]
    style_of = styles(shown, [chart for one in drawn for chart in one.charts])
    return part(
        "chart.html.j2",
        panels=[panel_page(one, one.axes[:1], tuple(recalls_of(one))[:1], style_of, {}) for one in shown],
        sections=[section_page(one, style_of, {}) for one in drawn],
        more=f"{plural(left, 'more panel')} in the report." if left else "",
    )


def _charted(summary: Summary) -> Section | None:
    """The first section with a chart that shows something; else the first with a table."""
    drawn = [one for one in summary.sections if any(line.x for chart in one.charts for line in chart.lines)]
    tables = [one for one in summary.sections if one.table is not None and one.table.rows]
    return next(iter([*drawn, *tables]), None)
