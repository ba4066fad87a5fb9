"""Several sweeps read as one short paper: what was asked and computed, what was found, and what that leaves open."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.summary import ReportInput


@dataclass(frozen=True)
class Part:
    """One sweep of an article.

    spec      the name under which the suite has it
    about     what its spec says of itself
    ablation  whether it takes the result apart, rather than being it
    report    what its own report shows
    link      where that lies, relative to the article; empty: nowhere
    remark    what is other than the spec asks for
    """

    spec: str
    about: str
    ablation: bool
    report: ReportInput
    link: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Article:
    """What is written of the suite `name`. `missing` are specs of it without a sweep."""

    name: str
    question: str
    description: str
    limits: tuple[str, ...]
    parts: tuple[Part, ...]
    missing: tuple[str, ...]
    created: str
    reproduce: tuple[str, ...]
