"""The pages of papers' claims: which papers there are, and what holds of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dashboards.certificate_page import STAMPS, places
from dashboards.claim_words import MEANINGS, counted, in_a_sentence
from dashboards.pages.frame import Visitor, page, part
from dashboards.pages.sweep import Drawing
from tasks.certificate import Certificate


@dataclass(frozen=True)
class PaperLine:
    """A paper with `claims` that can be checked."""

    name: str
    title: str
    claims: int


def papers_page(papers: tuple[PaperLine, ...], visitor: Visitor) -> str:
    """The page of all papers."""
    return page("papers.html.j2", visitor, "claims", papers=papers)


def paper_page(paper: PaperLine, drawing: Drawing, visitor: Visitor) -> str:
    """The page of one paper, with its certificate as `drawing`."""
    return page("paper.html.j2", visitor, "claims", paper=paper, drawing=drawing)


def certificate_part(certificate: Certificate, sweeps: Mapping[str, str]) -> str:
    """HTML of every claim with its verdict; `sweeps` are addresses of the sweeps that measured, by name of spec."""
    linked = replace(certificate, reports=dict(sweeps))
    return part(
        "certificate_part.html.j2",
        sentence=in_a_sentence(linked),
        counts=[(STAMPS[verdict], number) for verdict, number in counted(linked).items()],
        meanings=[(STAMPS[verdict], MEANINGS[verdict]) for verdict in counted(linked)],
        places=places(linked),
    )
