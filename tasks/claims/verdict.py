"""From what was measured to a verdict: every test, and what a claim and its ablation say together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.cells import Row
from tasks.certificate import AblationJudgement, Judgement, Published, Verdict
from tasks.claims.claim import (
    Ablation,
    BoundTest,
    Claim,
    DominanceTest,
    EquivalenceTest,
    ExactTest,
    IntervalTest,
    Statement,
)
from tasks.claims.measure import LackingError, Measured, take
from tasks.statistics import equivalence, mean_interval, student_quantile
from tasks.summary import Interval

NORMAL = 1.96
"""Half width of a 95% interval in standard errors, for the published error of which only the number is known."""

ONE_SEED = "one seed has no interval; run more seeds"

Rows = Mapping[str, Sequence[Row]]
"""Name of a ready-made spec -> the rows of its trials."""


@dataclass(frozen=True)
class Finding:
    """What came out of one statement.

    intervals  one a point; empty where nothing was measured
    passed     None where the rows cannot decide
    reason     what the test saw, or why it could not decide
    """

    intervals: tuple[Interval, ...]
    passed: bool | None
    reason: str

    @property
    def n(self) -> int:
        """Seeds behind each point, at least."""
        return min((interval.n for interval in self.intervals), default=0)


def judge(claims: Sequence[Claim], rows: Rows) -> list[Judgement]:
    """The verdict on each claim, from `rows` of the sweeps that measure them; no rows for a sweep that has not run.

    holds, differs       the claim and its ablation, if it has one, agree that it does
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
    )


def _judge_ablation(ablation: Ablation, published: Published, rows: Rows) -> AblationJudgement:
    target = published if ablation.published is None else ablation.published
    finding = _find(ablation, target, rows)
    return AblationJudgement(
        says=ablation.says,
        under=ablation.under,
        sweep=ablation.sweep,
        published=ablation.published,
        measured=tuple(interval.mean for interval in finding.intervals),
        intervals=finding.intervals,
        n=finding.n,
        test=describe(ablation.test),
        verdict="not measured" if finding.passed is None else "holds" if finding.passed else "differs",
        reason=finding.reason,
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
    conditions = claim.under, ablation.under
    yes, no = conditions if finding.passed else reversed(conditions)
    return "holds only if", f"holds with {yes}; does not with {no}: {ablation.says}"


def _find(statement: Statement | None, published: Published | None, rows: Rows) -> Finding:
    if statement is None:
        return Finding((), None, "nothing measures it")
    if not rows.get(statement.sweep):
        return Finding((), None, f"`{statement.sweep}` has not been run")
    try:
        measured = take(statement.measure, rows[statement.sweep])
    except LackingError as lacking:
        return Finding((), None, str(lacking))
    intervals = tuple(mean_interval(list(sample.values()), outcomes=measured.outcomes) for sample in measured.samples)
    try:
        passed, reason = _decide(statement, published, measured, intervals)
    except LackingError as lacking:
        return Finding(intervals, None, str(lacking))
    return Finding(intervals, passed, reason)


def _decide(
    statement: Statement, published: Published | None, measured: Measured, intervals: Sequence[Interval]
) -> tuple[bool, str]:
    match statement.test:
        case IntervalTest() as test:
            return _agree(test, _targets(published, len(intervals)), intervals)
        case ExactTest() as test:
            return _equal(test, _targets(published, len(intervals)), measured)
        case BoundTest() as test:
            return _bounded(test, intervals)
        case EquivalenceTest() as test:
            return _equivalent(test, measured)
        case DominanceTest() as test:
            return _dominates(test, intervals)


def _targets(published: Published | None, points: int) -> tuple[float, ...]:
    if published is None or isinstance(published, str):
        raise LackingError("there is no published number to compare with")
    targets = published if isinstance(published, tuple) else (published,)
    if len(targets) != points:
        raise LackingError(f"{points} points were measured, {len(targets)} are published")
    return targets


def _agree(test: IntervalTest, targets: Sequence[float], intervals: Sequence[Interval]) -> tuple[bool, str]:
    errors = [
        math.hypot(_half(interval, test.widest), _published_error(test, target))
        for target, interval in zip(targets, intervals, strict=True)
    ]
    gaps = [interval.mean - target for target, interval in zip(targets, intervals, strict=True)]
    excess = [abs(gap) - test.within - error for gap, error in zip(gaps, errors, strict=True)]
    worst = max(range(len(excess)), key=excess.__getitem__)
    allowed = test.within + errors[worst]
    off = f"off by {gaps[worst]:+.3g}, allowed ±{allowed:.3g}"
    if len(gaps) > 1:
        outside = sum(x > 0 for x in excess)
        off = f"{outside} of {len(gaps)} points apart; the worst, published {targets[worst]:g}, {off}"
    return max(excess) <= 1e-12, off


def _half(interval: Interval, widest: float) -> float:
    if interval.low is None or interval.high is None:
        raise LackingError(ONE_SEED)
    half = (interval.high - interval.low) / 2
    if half > widest:
        raise LackingError(f"the interval is ±{half:.2g} wide, too wide to tell; run more seeds")
    return half


def _published_error(test: IntervalTest, target: float) -> float:
    """Half width of the published number's own 95% interval."""
    if test.sd is not None:
        return student_quantile(test.seeds - 1) * test.sd / math.sqrt(test.seeds)
    if test.outcomes is not None:
        return NORMAL * math.sqrt(max(0.0, target * (1.0 - target)) / test.outcomes)
    return 0.0


def _equal(test: ExactTest, targets: Sequence[float], measured: Measured) -> tuple[bool, str]:
    def unlike(value: float, target: float) -> bool:
        return abs(value - target) > 0.5 * 10.0**-test.digits

    points = zip(measured.samples, targets, strict=True)
    wrong = [
        (seed, value, target) for sample, target in points for seed, value in sample.items() if unlike(value, target)
    ]
    if not wrong:
        return True, f"all {len(targets)} numbers are equal" if len(targets) > 1 else "equal"
    seed, value, target = wrong[0]
    return False, f"{value:.{test.digits}f} for {target:g} with seed {seed}, and {len(wrong) - 1} more"


def _bounded(test: BoundTest, intervals: Sequence[Interval]) -> tuple[bool, str]:
    """An interval inside decides, and so does a mean outside; a mean inside with an interval that is not, does not."""
    low = -math.inf if test.at_least is None else test.at_least
    high = math.inf if test.at_most is None else test.at_most
    for interval in intervals:
        if not low <= interval.mean <= high:
            return False, f"{interval.mean:.4g} is not {_limits(test)}"
    for interval in intervals:
        if interval.low is None or interval.high is None:
            raise LackingError(ONE_SEED)
        if interval.low < low or interval.high > high:
            ends = f"{interval.low:.4g} to {interval.high:.4g}"
            raise LackingError(f"the interval {ends} is not all {_limits(test)}; run more seeds")
    return True, f"{intervals[0].mean:.4g} is {_limits(test)}" if len(intervals) == 1 else f"all {_limits(test)}"


def _limits(test: BoundTest) -> str:
    limits = (("≥", test.at_least), ("≤", test.at_most))
    return " and ".join(f"{sign} {limit:g}" for sign, limit in limits if limit is not None)


def _equivalent(test: EquivalenceTest, measured: Measured) -> tuple[bool, str]:
    (sample,) = measured.samples
    result = equivalence(sample, dict.fromkeys(sample, 0.0), test.margin)
    low, high = result.difference.low, result.difference.high
    if result.equal is None or low is None or high is None:
        raise LackingError(ONE_SEED)
    if not result.equal and low <= test.margin and high >= -test.margin:
        raise LackingError(f"p = {result.p:.2g}: neither equal nor apart by more than {test.margin:g}; run more seeds")
    return (
        result.equal,
        f"difference {result.difference.mean:+.3g}, p of a difference ≥ {test.margin:g}: {result.p:.2g}",
    )


def _dominates(test: DominanceTest, intervals: Sequence[Interval]) -> tuple[bool, str]:
    lowest = min(interval.mean for interval in intervals)
    if any(interval.low is None for interval in intervals):
        raise LackingError(ONE_SEED)
    above = sum(interval.low is not None and interval.low > 0 for interval in intervals)
    reason = f"above beyond the 95% interval at {above} of {len(intervals)} sizes; smallest difference {lowest:+.3g}"
    return lowest >= -test.margin and above > 0, reason


def describe(test: IntervalTest | ExactTest | BoundTest | EquivalenceTest | DominanceTest) -> str:
    """A test in words."""
    match test:
        case IntervalTest(within=within, outcomes=outcomes, sd=sd, seeds=seeds):
            error = f", published sd {sd:g} over {seeds} seeds" if sd is not None else ""
            error = error or (f", published over {outcomes} queries" if outcomes is not None else "")
            return f"interval: 95% of both, ±{within:g}{error}"
        case ExactTest(digits=digits):
            return "exact" if not digits else f"exact to {digits} digits"
        case BoundTest():
            return f"bound: 95% interval {_limits(test)}"
        case EquivalenceTest(margin=margin):
            return f"equivalence: two one-sided t-tests, margin {margin:g}"
        case DominanceTest(margin=margin):
            return f"dominance: nowhere below by more than {margin:g}, somewhere above"
