"""What checking a paper's claims found: plain data that certificates are drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tasks.summary import Interval

Verdict = Literal["holds", "holds only if", "differs", "not measurable here", "not measured"]

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""Every verdict, from the best a claim can get to the least that can be said of it."""

Published = float | tuple[float, ...] | str
"""A number, several, or words where there is no number."""


@dataclass(frozen=True)
class AblationJudgement:
    """What became of a claim under another condition, `under`: `holds`, `differs` or `not measured`.

    says       what comes out under that condition, as a sentence; empty where something else was expected
    published  what is compared with; None where it is what the claim says
    leaks      whether models were measured whose outputs depend on later tokens
    The rest is as in Judgement.
    """

    says: str
    under: str
    sweep: str
    published: Published | None
    measured: tuple[float, ...]
    intervals: tuple[Interval, ...]
    n: int
    test: str
    verdict: Verdict
    reason: str
    leaks: bool = False


@dataclass(frozen=True)
class Judgement:
    """One claim of a paper and what became of it.

    id                   unique within the paper, e.g. "table-1/dp-recall"
    where                the place in the paper, e.g. "Table 1, §3.1.1"
    says                 the claim in one sentence
    published            as the claim states it
    measured, intervals  one a point of the measure; empty where nothing was measured
    n                    seeds behind each point, at least
    test                 the test in words, with its parameters; `verdict` and `reason` its outcome
    sweep                the ready-made spec that measures the claim; None where nothing does
    ablation             what the claim holds or fails by, where the claim has one
    leaks                whether models were measured whose outputs depend on later tokens
    """

    id: str
    where: str
    says: str
    published: Published
    measured: tuple[float, ...]
    intervals: tuple[Interval, ...]
    n: int
    test: str
    verdict: Verdict
    reason: str
    sweep: str | None
    ablation: AblationJudgement | None = None
    leaks: bool = False


@dataclass(frozen=True)
class Certificate:
    """The judgements on one paper, in the paper's order. Times are ISO 8601 in UTC.

    seconds   what measuring took, None where nothing had to be measured
    machines  one flat record a machine (`hw.*` names without the prefix); None values carry a reason under NAME_reason
    software  versions, by package
    reports   the path of a sweep's report from the certificate's folder, by the name of the ready-made spec
    """

    paper: str
    title: str
    created: str
    seconds: float | None
    judgements: tuple[Judgement, ...]
    machines: tuple[Mapping[str, Any], ...] = ()
    software: Mapping[str, str] = field(default_factory=dict)
    reports: Mapping[str, str] = field(default_factory=dict)


def claim_record(judgement: Judgement) -> dict[str, Any]:
    """`judgement` as JSON holds it, in `slotsweep claims --json` and in a certificate.

    `measured` and `interval` ([low, high], null where undefined) stand alone for one point and in lists for several;
    they are null where nothing was measured.
    """
    ablation = judgement.ablation
    return {
        "id": judgement.id,
        "where": judgement.where,
        "says": judgement.says,
        **_outcome(judgement),
        "ablation": None
        if ablation is None
        else {"says": ablation.says, "under": ablation.under, **_outcome(ablation)},
    }


def _outcome(found: Judgement | AblationJudgement) -> dict[str, Any]:
    """The fields that a claim and its ablation share."""
    return {
        "published": list(found.published) if isinstance(found.published, tuple) else found.published,
        "measured": _alone(found.measured),
        "interval": _alone(
            [None if interval.low is None else [interval.low, interval.high] for interval in found.intervals]
        ),
        "leaks_future": found.leaks,
        "n": found.n,
        "method": "; ".join(dict.fromkeys(interval.method for interval in found.intervals)) or None,
        "test": found.test,
        "verdict": found.verdict,
        "reason": found.reason,
        "sweep": found.sweep,
    }


def _alone(values: Sequence[Any]) -> Any:
    return None if not values else values[0] if len(values) == 1 else list(values)
