"""The certificate page as plain data for its template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from dashboards.claim_words import SIGNS, by_place, interval_text, measured_text, published_text
from dashboards.page import Cell, Row, Table
from dashboards.text import MISSING, bounds, measure
from tasks.certificate import VERDICTS, AblationJudgement, Certificate, Judgement, Verdict


@dataclass(frozen=True)
class Stamp:
    """A verdict as it is shown: `name` for style sheets, a sign, the words."""

    name: str
    sign: str
    text: Verdict


@dataclass(frozen=True)
class Fact:
    """A line of what stands behind a verdict; `link` leads to a file, where there is one."""

    name: str
    text: str
    link: str = ""


@dataclass(frozen=True)
class Condition:
    """The ablation of a claim."""

    under: str
    says: str
    stamp: Stamp
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class ClaimPage:
    """One claim: its row, and what is told when it is opened. `points` are its numbers where there are several."""

    anchor: str
    id: str
    says: str
    published: str
    measured: str
    interval: str
    stamp: Stamp
    facts: tuple[Fact, ...]
    points: Table | None
    condition: Condition | None


@dataclass(frozen=True)
class PlacePage:
    """The claims of one table, figure or section of the paper."""

    anchor: str
    title: str
    claims: tuple[ClaimPage, ...]


STAMPS: dict[Verdict, Stamp] = {
    verdict: Stamp(verdict.replace(" ", "-"), SIGNS[verdict], verdict) for verdict in VERDICTS
}


def places(certificate: Certificate) -> tuple[PlacePage, ...]:
    """Every claim, by its place in the paper."""
    return tuple(
        PlacePage(f"place-{number}", place, tuple(_claim(judgement, certificate.reports) for judgement in judgements))
        for number, (place, judgements) in enumerate(by_place(certificate.judgements).items(), start=1)
    )


def _claim(judgement: Judgement, reports: Mapping[str, str]) -> ClaimPage:
    return ClaimPage(
        anchor=f"claim-{'-'.join(judgement.id.split())}",
        id=judgement.id,
        says=judgement.says,
        published=published_text(judgement.published),
        measured=measured_text(judgement),
        interval=interval_text(judgement),
        stamp=STAMPS[judgement.verdict],
        facts=(Fact("where", judgement.where), *_facts(judgement, reports)),
        points=_points(judgement),
        condition=None if judgement.ablation is None else _condition(judgement.ablation, reports),
    )


def _condition(ablation: AblationJudgement, reports: Mapping[str, str]) -> Condition:
    measured = " ".join(text for text in (measured_text(ablation), interval_text(ablation)) if text)
    numbers = [Fact("measured", measured)]
    if ablation.published is not None:
        numbers.insert(0, Fact("compared with", published_text(ablation.published)))
    return Condition(ablation.under, ablation.says, STAMPS[ablation.verdict], (*numbers, *_facts(ablation, reports)))


def _facts(found: Judgement | AblationJudgement, reports: Mapping[str, str]) -> list[Fact]:
    """Why the verdict is what it is, the test, the seeds, the intervals, the sweep; what there is of them."""
    facts = [Fact("reason", found.reason), Fact("test", found.test)]
    if found.measured:
        facts.append(Fact("n", f"{found.n} {'seed' if found.n == 1 else 'seeds'}"))
    facts.append(Fact("interval", "; ".join(dict.fromkeys(interval.method for interval in found.intervals))))
    if found.sweep is not None:
        facts.append(Fact("sweep", found.sweep, quote(reports.get(found.sweep, ""))))
    return [fact for fact in facts if fact.text]


def _points(judgement: Judgement) -> Table | None:
    """A row for each of several numbers: published, measured and its interval."""
    if len(judgement.measured) < 2:
        return None
    published = judgement.published if isinstance(judgement.published, tuple) else ()
    rows = []
    for i, (mean, interval) in enumerate(zip(judgement.measured, judgement.intervals, strict=True)):
        paper = measure(published[i]) if i < len(published) else MISSING
        rows.append(Row((Cell(str(i + 1)), Cell(paper), Cell(measure(mean), bounds(interval, measure)))))
    return Table((("point", True), ("published", True), ("measured", True)), tuple(rows))
