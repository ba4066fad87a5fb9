"""From the rows of sweeps to verdicts: what a claim and its ablation say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.cells import Row, row_looks_ahead
from tasks.certificate import AblationJudgement, Judgement, Published, Verdict
from tasks.claims.claim import Ablation, Claim, Statement
from tasks.claims.decide import decide, describe
from tasks.claims.measure import LackingError, Sample, rows_of, take
from tasks.proportions import wilson_interval
from tasks.statistics import mean_interval
from tasks.summary import Interval

Rows = Mapping[str, Sequence[Row]]
"""Name of a ready-made spec -> the rows of its trials."""


@dataclass(frozen=True)
class Finding:
    """What came out of one statement.

    intervals  one a point; empty where nothing was measured
    passed     None where the rows cannot decide
    reason     what the test saw, or why it could not decide
    leaks      whether outputs of what was measured depend on later tokens
    """

    intervals: tuple[Interval, ...]
    passed: bool | None
    reason: str
    leaks: bool = False

    @property
    def n(self) -> int:
        """Seeds behind each point, at least."""
        return min((interval.n for interval in self.intervals), default=0)


def judge(claims: Sequence[Claim], rows: Rows) -> list[Judgement]:
    """The verdict on each claim, from `rows` of the sweeps that measure them; no rows for a sweep that has not run.

    holds, differs       the claim and its ablation, if it has one and could be decided, agree that it does
    holds only if        one of the two holds and the other does not: the reason names both conditions
    not measurable here  nothing was measured because of what `missing` names
    not measured         the rows lack what the claim needs, or cannot decide
    """
    return [_judge(claim, rows) for claim in claims]


def _judge(claim: Claim, rows: Rows) -> Judgement:
    finding = _find(claim.statement, claim.published, rows)
    ablation = None if claim.ablation is None else _judge_ablation(claim.ablation, claim.published, rows)
    verdict, reason = _together(claim, finding, ablation, rows)
    return Judgement(
        id=claim.id,
        where=claim.where,
        says=claim.says,
        published=claim.published,
        measured=tuple(interval.mean for interval in finding.intervals),
        intervals=finding.intervals,
        n=finding.n,
        test="" if claim.test is None else describe(claim.test),
        verdict=verdict,
        reason=reason if claim.remark is None else f"{reason}. {claim.remark}",
        sweep=claim.sweep,
        ablation=ablation,
        leaks=finding.leaks,
    )


def _judge_ablation(ablation: Ablation, published: Published, rows: Rows) -> AblationJudgement:
    target = published if ablation.published is None else ablation.published
    finding = _find(ablation, target, rows)
    verdict: Verdict = "not measured" if finding.passed is None else "holds" if finding.passed else "differs"
    return AblationJudgement(
        says=ablation.says if verdict == ablation.expects else "",
        under=ablation.under,
        sweep=ablation.sweep,
        published=ablation.published,
        measured=tuple(interval.mean for interval in finding.intervals),
        intervals=finding.intervals,
        n=finding.n,
        test=describe(ablation.test),
        verdict=verdict,
        reason=finding.reason,
        leaks=finding.leaks,
    )


def _together(claim: Claim, finding: Finding, ablation: AblationJudgement | None, rows: Rows) -> tuple[Verdict, str]:
    if finding.passed is None:
        unseen = claim.sweep is None or not rows.get(claim.sweep)
        if claim.missing is not None and unseen:
            return "not measurable here", claim.missing
        return "not measured", finding.reason
    verdict: Verdict = "holds" if finding.passed else "differs"
    if ablation is None or ablation.verdict in ("not measured", verdict):
        return verdict, finding.reason
    conditions = (claim.under, finding.reason), (ablation.under, ablation.reason)
    (yes, found), (no, lacking) = conditions if finding.passed else reversed(conditions)
    said = f": {ablation.says}" if ablation.says else ""
    return "holds only if", f"holds ({yes}: {found}); does not ({no}: {lacking}){said}"


def _find(statement: Statement | None, published: Published | None, rows: Rows) -> Finding:
    if statement is None:
        return Finding((), None, "nothing measures it")
    if not rows.get(statement.sweep):
        return Finding((), None, f"`{statement.sweep}` has not been run with this code and these settings")
    try:
        measured = take(statement.measure, rows[statement.sweep])
    except LackingError as lacking:
        return Finding((), None, str(lacking))
    intervals = tuple(_interval(sample, measured.outcomes) for sample in measured.samples)
    leaks = any(map(row_looks_ahead, rows_of(statement.measure, rows[statement.sweep])))
    try:
        passed, reason = decide(statement.test, published, measured, intervals)
    except LackingError as lacking:
        return Finding(intervals, None, str(lacking), leaks)
    return Finding(intervals, passed, reason, leaks)


def _interval(sample: Sample, outcomes: int | None) -> Interval:
    if outcomes == 1:
        return wilson_interval(sum(sample.values()), len(sample), "seeds")
    return mean_interval(list(sample.values()), outcomes=outcomes)
