"""What checking a paper's claims found: plain data that certificates are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tasks.summary import Interval

Verdict = Literal["holds", "holds only if", "differs", "not measurable here", "not measured"]

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""Every verdict, from the best a claim can get to the least that can be said of it."""

Quantity = str | int | float | tuple[float, ...] | None
"""A number, several, or a statement in words; None where there is none."""


@dataclass(frozen=True)
class Ablation:
    """The same claim under another condition: `says` names the condition, the rest is as in Judgement."""

    says: str
    measured: Quantity
    interval: Interval | None
    verdict: Verdict


@dataclass(frozen=True)
class Judgement:
    """One claim of a paper and what its measurement says of it.

    id         unique within the paper, e.g. "table-1/dp-recall"
    where      the place in the paper, e.g. "table 1"
    says       the claim in one sentence
    published  what the paper prints, measured what was found here, both in the same unit
    interval   95% interval of what was measured, where there is one
    n          seeds behind what was measured
    test       the test applied, with its parameters
    reason     why the verdict is what it is
    sweep      the ready-made spec that measures the claim; None where nothing here can
    ablation   what the claim holds or fails by, where that was measured
    """

    id: str
    where: str
    says: str
    published: Quantity
    measured: Quantity
    interval: Interval | None
    n: int
    test: str
    verdict: Verdict
    reason: str
    sweep: str | None
    ablation: Ablation | None = None


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
    """`judgement` as JSON holds it: the fields of Judgement, an interval as [low, high] (null where undefined).

    The first ten names are what `slotsweep claims --json` promises.
    """
    ablation = judgement.ablation
    return {
        "id": judgement.id,
        "where": judgement.where,
        "published": judgement.published,
        "measured": judgement.measured,
        "interval": _ends(judgement.interval),
        "n": judgement.n,
        "test": judgement.test,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
        "sweep": judgement.sweep,
        "says": judgement.says,
        "method": None if judgement.interval is None else judgement.interval.method,
        "ablation": None
        if ablation is None
        else {
            "says": ablation.says,
            "measured": ablation.measured,
            "interval": _ends(ablation.interval),
            "verdict": ablation.verdict,
        },
    }


def _ends(interval: Interval | None) -> list[float] | None:
    if interval is None or interval.low is None or interval.high is None:
        return None
    return [interval.low, interval.high]
