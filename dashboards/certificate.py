"""The certificate of a paper's claims: an HTML page that needs nothing else, Markdown, JSON, a table for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dashboards.certificate_page import STAMPS, places
from dashboards.claim_words import (
    MEANINGS,
    SIGNS,
    by_place,
    counted,
    in_a_sentence,
    interval_text,
    leaking,
    measured_text,
)
from dashboards.claim_words import published_text as published
from dashboards.markup import markdown_table, markdown_text
from dashboards.page import hardware_table
from dashboards.paper import short
from dashboards.rendering import moment, render
from dashboards.text import duration
from tasks.certificate import VERDICTS, Certificate, Judgement, claim_record

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

LONGEST_PUBLISHED = 36
"""Characters of what the paper prints that a terminal shows."""

CLAIM_WIDTH, PUBLISHED_WIDTH, MEASURED_WIDTH = 26, 13, 15
"""Columns of the table for a terminal of 80; a wider one widens all three."""

SIDES: tuple[Literal["left", "right"], ...] = ("left", "right", "right")
BORDERS = 5

EXPLAINED = ("differs", "holds only if")
"""Verdicts whose reasons a terminal tells."""


def render_certificate(certificate: Certificate, folder: Path) -> Path:
    """Write `certificate.html`, `.md` and `.json` into `folder` (made if missing); return the path of the HTML page.

    The page is self-contained, as a report is (see `dashboards.report.render_report`): it makes no request, runs no
    script but its own, and filters and opens claims where scripts are off. Its links to reports are relative.

    Raises OSError if `folder` cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "certificate.md").write_text(as_markdown(certificate), encoding="utf-8")
    (folder / "certificate.json").write_text(as_json(certificate), encoding="utf-8")
    page = folder / "certificate.html"
    page.write_text(render_page(certificate), encoding="utf-8")
    return page


def render_page(certificate: Certificate) -> str:
    """The HTML of `certificate`."""
    return render(
        "certificate.html.j2",
        ("report.css", "certificate.css"),
        ("certificate.js",),
        certificate=certificate,
        sentence=in_a_sentence(certificate),
        leaking=leaking(certificate),
        counts=[(STAMPS[verdict], number) for verdict, number in counted(certificate).items()],
        meanings=[(STAMPS[verdict], MEANINGS[verdict]) for verdict in counted(certificate)],
        places=places(certificate),
        hardware=hardware_table(certificate.machines),
    )


def as_json(certificate: Certificate) -> str:
    """Everything the certificate holds; its `claims` are as in `slotsweep claims --json`."""
    record = {
        "paper": certificate.paper,
        "title": certificate.title,
        "created": certificate.created,
        "seconds": certificate.seconds,
        "counts": counted(certificate),
        "claims": [claim_record(judgement) for judgement in certificate.judgements],
        "machines": [dict(machine) for machine in certificate.machines],
        "software": dict(certificate.software),
        "reports": dict(certificate.reports),
    }
    return json.dumps(record, ensure_ascii=False, indent=2) + "\n"


def as_markdown(certificate: Certificate) -> str:
    """Counts by verdict, then a GitHub-flavoured table for each table, figure and section of the paper."""
    measured = "" if certificate.seconds is None else f" Measured in {duration(certificate.seconds)}."
    counts = [[f"{SIGNS[verdict]} {verdict}", f"{number:,}"] for verdict, number in counted(certificate).items()]
    parts = [
        f"# {markdown_text(certificate.title)}: what holds",
        f"{in_a_sentence(certificate)}{measured} {markdown_text(moment(certificate.created))}.",
        *filter(None, [leaking(certificate)]),
        markdown_table(("verdict", "claims"), counts),
    ]
    for place, judgements in by_place(certificate.judgements).items():
        rows = [_markdown_row(judgement) for judgement in judgements]
        table = markdown_table(("claim", "published", "measured", "n", "test", "verdict", "why", "sweep"), rows)
        parts += [f"## {markdown_text(place)}", table]
    return "\n\n".join(parts) + "\n"


def _markdown_row(judgement: Judgement) -> list[str]:
    return [
        f"{judgement.says} ({judgement.id})",
        published(judgement.published),
        f"{measured_text(judgement)} {interval_text(judgement)}".strip(),
        str(judgement.n or ""),
        judgement.test,
        f"{SIGNS[judgement.verdict]} {judgement.verdict}",
        judgement.reason,
        judgement.sweep or "",
    ]


def certificate_table(certificate: Certificate) -> RenderableType:
    """A Rich renderable: every claim with its verdict by place in the paper, reasons for those in doubt, the counts.

    Nothing is said by colour alone.
    """
    from rich.console import Group
    from rich.text import Text

    doubts = [judgement for judgement in certificate.judgements if judgement.verdict in EXPLAINED]
    reasons = [
        Text.assemble((f"{judgement.id} {judgement.verdict}", "bold"), f": {judgement.reason}") for judgement in doubts
    ]
    counts = [Text(f"{number:5,} {SIGNS[verdict]} {verdict}") for verdict, number in counted(certificate).items()]
    mark = [Text(f"\n{told}") for told in [leaking(certificate)] if told]
    return Group(_ClaimsTable(certificate), *reasons, *mark, Text(f"\n{certificate.title}", style="bold"), *counts)


@dataclass(frozen=True)
class _ClaimsTable:
    """A Rich renderable of every claim; verdicts are never cut, the other columns share what they leave and fold."""

    certificate: Certificate

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        verdict = max(map(len, VERDICTS)) + 2
        widths = (CLAIM_WIDTH, PUBLISHED_WIDTH, MEASURED_WIDTH)
        room = max(0, options.max_width - BORDERS - verdict - sum(widths)) // len(widths)
        table = Table(box=box.SIMPLE_HEAD, padding=0)
        for name, width, side in zip(("claim", "published", "measured"), widths, SIDES, strict=True):
            table.add_column(name, overflow="fold", min_width=width, max_width=width + room, justify=side)
        table.add_column("verdict", no_wrap=True, min_width=verdict)
        for place, judgements in by_place(self.certificate.judgements).items():
            table.add_row(Text(place, style="bold"))
            for judgement in judgements:
                table.add_row(
                    Text(judgement.id),
                    Text(short(published(judgement.published), LONGEST_PUBLISHED)),
                    Text(f"{measured_text(judgement)}\n{interval_text(judgement)}".strip()),
                    Text(f"{SIGNS[judgement.verdict]} {judgement.verdict}"),
                )
        yield table
