"""The certificate of a paper's claims: an HTML page that needs nothing else, Markdown, JSON, a table for a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from dashboards.certificate_page import STAMPS, places
from dashboards.claim_words import MEANINGS, SIGNS, by_place, counted, in_a_sentence, interval_text, measured_text
from dashboards.claim_words import published_text as published
from dashboards.markup import MARKDOWN_SPECIALS, markdown_table
from dashboards.page import hardware_table
from dashboards.paper import short
from dashboards.rendering import moment, render
from dashboards.text import duration
from tasks.certificate import VERDICTS, Certificate, Judgement, claim_record

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

LONGEST_PUBLISHED = 36
"""Characters of what the paper prints that a terminal shows."""

CLAIM_WIDTH, MEASURED_WIDTH = 26, 15
"""Columns of a terminal that the other ones leave."""

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
        f"# {certificate.title.translate(MARKDOWN_SPECIALS)}: what holds",
        f"{in_a_sentence(certificate)}{measured} {moment(certificate.created).translate(MARKDOWN_SPECIALS)}.",
        markdown_table(("verdict", "claims"), counts),
    ]
    for place, judgements in by_place(certificate.judgements).items():
        rows = [_markdown_row(judgement) for judgement in judgements]
        table = markdown_table(("claim", "published", "measured", "n", "verdict", "why", "sweep"), rows)
        parts += [f"## {place.translate(MARKDOWN_SPECIALS)}", table]
    return "\n\n".join(parts) + "\n"


def _markdown_row(judgement: Judgement) -> list[str]:
    return [
        f"{judgement.says} ({judgement.id})",
        published(judgement.published),
        f"{measured_text(judgement)} {interval_text(judgement)}".strip(),
        str(judgement.n or ""),
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
    return Group(_claims_table(certificate), *reasons, Text(f"\n{certificate.title}", style="bold"), *counts)


def _claims_table(certificate: Certificate) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=0)
    table.add_column("claim", overflow="fold", min_width=CLAIM_WIDTH)
    table.add_column("published", overflow="fold", justify="right")
    table.add_column("measured", overflow="fold", justify="right", min_width=MEASURED_WIDTH)
    table.add_column("verdict", no_wrap=True, min_width=max(map(len, VERDICTS)) + 2)
    for place, judgements in by_place(certificate.judgements).items():
        table.add_row(Text(place, style="bold"))
        for judgement in judgements:
            table.add_row(
                Text(judgement.id),
                Text(short(published(judgement.published), LONGEST_PUBLISHED)),
                Text(f"{measured_text(judgement)}\n{interval_text(judgement)}".strip()),
                Text(f"{SIGNS[judgement.verdict]} {judgement.verdict}"),
            )
    return table
