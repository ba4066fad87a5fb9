"""The page that compares two sweeps, or the devices or machines of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.pages.frame import Link, Visitor, page, part
from dashboards.pages.sweep import Drawing
from dashboards.sections import section_page
from dashboards.style import styles
from dashboards.tables import mark_methods
from tasks.summary import Section, Summary


@dataclass(frozen=True)
class ComparisonView:
    """What to compare, as it was chosen, and what can be chosen: (id, name) of sweeps.

    compared  the sweeps that were chosen; drawing: None as long as these are none, or one with nothing beside it
    """

    first: str
    second: str
    by: str
    choices: tuple[tuple[str, str], ...]
    compared: tuple[Link, ...]
    drawing: Drawing | None


def comparison_page(view: ComparisonView, visitor: Visitor) -> str:
    """The page of `view`."""
    return page("compare.html.j2", visitor, "compare", view=view)


def comparison_part(sections: Sequence[Section], name: str) -> str:
    """HTML of the sections of a comparison; `name` begins the names of files that it offers."""
    summary = Summary((), sections=tuple(sections))
    style_of = styles((), [chart for section in sections for chart in section.charts])
    methods = mark_methods(summary)
    return part(
        "comparison.html.j2",
        sections=[section_page(section, style_of, methods) for section in sections],
        name=name,
        marked=len(methods) > 1,
    )
