"""Judgements in words: counts by verdict, the numbers of a claim as text, claims by their place in the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dashboards.text import MISSING, bounds, measure
from tasks.cells import marked
from tasks.certificate import VERDICTS, AblationJudgement, Certificate, Judgement, Published, Verdict

SIGNS: dict[Verdict, str] = {
    "holds": "✓",
    "holds only if": "◐",
    "differs": "✗",
    "not measurable here": "⊘",
    "not measured": "○",
}

MEANINGS: dict[Verdict, str] = {
    "holds": "What was measured agrees with what is published, by the test that the claim names.",
    "holds only if": "Whether it agrees depends on a condition; the ablation, measured in the same way, shows which.",
    "differs": "What was measured does not agree with what is published.",
    "not measurable here": "Data or a machine is needed that is not at hand; the reason names it.",
    "not measured": "The trials that would decide have not run, have failed, or are too few or too rough to tell.",
}

MARK = (
    "Numbers marked `leaks future` are of models whose outputs depend on later tokens. Where every position is scored "
    "their losses are no scores of predictions."
)

_CLAUSES: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "holds only if": ("holds only under a condition", "hold only under a condition"),
    "differs": ("differs", "differ"),
    "not measurable here": ("cannot be measured here", "cannot be measured here"),
    "not measured": ("was not measured", "were not measured"),
}

MOST_POINTS = 3
"""Of more numbers than this the first and the last are shown."""


def counted(certificate: Certificate) -> dict[Verdict, int]:
    """How many claims have each verdict, in the order of VERDICTS; verdicts of none are left out."""
    counts = Counter(judgement.verdict for judgement in certificate.judgements)
    return {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}


def in_a_sentence(certificate: Certificate) -> str:
    """`Of 84 published numbers and statements, 61 hold, 9 differ and 14 were not measured.`"""
    counts = counted(certificate)
    total = sum(counts.values())
    clauses = [f"{number:,} {_CLAUSES[verdict][number != 1]}" for verdict, number in counts.items()]
    if not clauses:
        return "The paper has no claims."
    said = clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])} and {clauses[-1]}"
    return f"Of {total:,} published {'number or statement' if total == 1 else 'numbers and statements'}, {said}."


def by_place(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """Claims by the table, figure or section they stand in, in order of first appearance.

    The place is what `where` says before its first comma: `Table 1` of `Table 1, §3.1.1`.
    """
    places: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        places.setdefault(judgement.where.partition(",")[0].strip(), []).append(judgement)
    return places


def published_text(published: Published) -> str:
    """What the paper prints; of many numbers the ends."""
    if isinstance(published, str):
        return published
    return _numbers(published if isinstance(published, tuple) else (published,))


def measured_text(found: Judgement | AblationJudgement) -> str:
    """What was measured, without intervals, marked where models look ahead; of many numbers the ends."""
    return marked(_numbers(found.measured), bool(found.measured) and found.leaks)


def leaking(certificate: Certificate) -> str:
    """What the mark of models that look ahead means; empty where none is marked."""
    found = [one for judgement in certificate.judgements for one in (judgement, judgement.ablation) if one]
    return MARK if any(one.leaks for one in found) else ""


def interval_text(found: Judgement | AblationJudgement) -> str:
    """The 95% interval of what was measured, where it is one number."""
    return bounds(found.intervals[0], measure) if len(found.intervals) == 1 else ""


def _numbers(numbers: Sequence[float]) -> str:
    if not numbers:
        return MISSING
    texts = [measure(number) for number in numbers]
    if len(texts) > MOST_POINTS:
        return f"{texts[0]} … {texts[-1]} ({len(texts)} numbers)"
    return "; ".join(texts)
