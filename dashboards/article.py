"""An article: an HTML page that needs nothing else, and the same as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from dashboards.grids import grid_legend, printed_rows
from dashboards.markup import markdown_table, markdown_text
from dashboards.page import hardware_table
from dashboards.rendering import moment, render
from dashboards.sections import SectionPage, section_page
from dashboards.style import styles
from dashboards.tables import mark_methods
from dashboards.text import listing, plural
from dashboards.words import findings, overview
from tasks.article import Article, Part
from tasks.summary import Section, Summary


@dataclass(frozen=True)
class PartPage:
    """What the page says of one sweep. `name` is fit for an anchor."""

    name: str
    title: str
    about: str
    remark: str
    found: tuple[str, ...]
    overview: str
    sections: tuple[SectionPage, ...]
    marked: bool
    sweep: str
    link: str


def render_article(article: Article, folder: Path) -> Path:
    """Write `article.html` and `article.md` into `folder` (made if missing); return the path of the HTML page.

    The page is self-contained, as a report is (see `dashboards.report.render_report`). Raises OSError if `folder`
    cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "article.md").write_text(as_markdown(article), encoding="utf-8")
    page = folder / "article.html"
    page.write_text(render_page(article), encoding="utf-8")
    return page


def render_page(article: Article) -> str:
    """The HTML of `article`."""
    chapters = [(title, [_page(part, number) for number, part in parts]) for title, parts in _chapters(article)]
    return render(
        "article.html.j2",
        ("report.css",),
        ("report.js",),
        article=article,
        chapters=chapters,
        short=chapters[0][1] if chapters else [],
        set_up=set_up(article),
        limits=limits(article),
        hardware=hardware_table(_machines(article).values()),
        software=next((part.report.software for part in article.parts), {}),
    )


def as_markdown(article: Article) -> str:
    """The text and the tables of `article`."""
    return "\n\n".join(_markdown(article)) + "\n"


def set_up(article: Article) -> list[str]:
    """What was computed, in sentences."""
    trials = sum(part.report.counts["trials"] for part in article.parts)
    done = sum(part.report.counts["done"] for part in article.parts)
    sweeps = plural(len(article.parts), "sweep")
    machines = [
        f"{record.get('cpu_model') or record.get('gpu') or 'a machine that does not say'}, {plural(cores, 'core')}"
        for record in _machines(article).values()
        if isinstance(cores := record.get("cores") or 0, int)
    ]
    return [
        f"{done:,} of {plural(trials, 'trial')} in {sweeps} have a result. Numbers are means over seeds, with 95% "
        "intervals where there are several; differences are paired by seed. All of it is drawn from the "
        "database that keeps it.",
        *([f"Computed on {listing(sorted(set(machines)))}."] if machines else []),
    ]


def limits(article: Article) -> list[str]:
    """What a reader must know before believing the numbers: what the suite says, and what its sweeps do."""
    said = list(article.limits)
    if article.missing:
        said.append(f"Not run, or given up: {listing(article.missing)}.")
    if len({json.dumps(part.report.software, sort_keys=True) for part in article.parts}) > 1:
        said.append(
            "Not all sweeps were submitted by the same versions of the software: each sweep's own report names them."
        )
    for part in article.parts:
        warnings = [*part.report.summary.warnings, *([part.remark] if part.remark else [])]
        said += [f"{part.report.name}: {warning}." for warning in warnings]
    return said


def found(part: Part) -> tuple[str, ...]:
    """What a sweep found, in sentences."""
    told = [section.text[0] for section in part.report.summary.sections if section.finding and section.text]
    return tuple(told or [findings(panel) for panel in part.report.summary.panels])


def _chapters(article: Article) -> list[tuple[str, list[tuple[int, Part]]]]:
    """Results, and what takes them apart, as far as there are any: titles, and numbered parts."""
    numbered = list(enumerate(article.parts, start=1))
    chapters = [
        (title, [(number, part) for number, part in numbered if part.ablation == ablation])
        for title, ablation in (("Results", False), ("Ablations", True))
    ]
    return [(title, parts) for title, parts in chapters if parts]


def _page(part: Part, number: int) -> PartPage:
    shown = _shown(part)
    style_of = styles(shown.panels, [chart for section in shown.sections for chart in section.charts])
    methods = mark_methods(replace(shown, panels=()))
    name = f"part-{number}"
    return PartPage(
        name=name,
        title=part.report.name,
        about=part.about,
        remark=part.remark,
        found=found(part),
        overview=overview(part.report),
        sections=tuple(
            replace(section_page(section, style_of, methods), name=f"{name}-{section.name}")
            for section in shown.sections
        ),
        marked=len(methods) > 1,
        sweep=part.report.sweep,
        link=quote(part.link),
    )


def _shown(part: Part) -> Summary:
    """What a sweep leads with, without the rest: that stands in its own report. Of an ablation no charts."""
    summary = part.report.summary
    leading = [section for section in summary.sections if section.leading]
    if part.ablation:
        leading = [replace(section, charts=()) for section in leading if section.table is not None]
    return replace(summary, sections=tuple(leading or summary.sections[:1]))


def _machines(article: Article) -> Mapping[str, Mapping[str, object]]:
    records = (record for part in article.parts for record in part.report.hardware)
    return {json.dumps(record, sort_keys=True, default=str): record for record in records}


def _markdown(article: Article) -> Iterator[str]:
    yield f"# {markdown_text(article.question)}"
    yield f"{markdown_text(article.name)}, written {moment(article.created)}"
    yield "## In short"
    chapters = _chapters(article)
    first = chapters[0][1] if chapters else []
    told = (f"{part.report.name}: {text}" for _, part in first for text in found(part))
    yield "\n".join(f"- {markdown_text(text)}" for text in told) or "–"
    yield "## Set-up"
    yield from map(markdown_text, [article.description, *set_up(article)])
    for title, parts in chapters:
        yield f"## {title}"
        for _, part in parts:
            yield from _part_markdown(part)
    yield "## Limits"
    yield "\n".join(f"- {markdown_text(text)}" for text in limits(article)) or "–"
    yield "## How to reproduce"
    yield "```sh\n" + "\n".join(article.reproduce) + "\n```"


def _part_markdown(part: Part) -> Iterator[str]:
    yield f"### {markdown_text(part.report.name)}"
    yield from map(markdown_text, filter(None, (part.about, part.remark, *found(part), overview(part.report))))
    for section in _shown(part).sections:
        yield from _section_markdown(section)


def _section_markdown(section: Section) -> Iterator[str]:
    yield f"#### {markdown_text(section.title)}"
    texts: Sequence[str] = section.text[1:] if section.finding else section.text
    yield from map(markdown_text, texts)
    if section.table is not None and section.table.rows:
        yield markdown_table(section.table.columns, printed_rows(section.table))
        yield markdown_text(grid_legend(section.table))
