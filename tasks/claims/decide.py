"""The tests of claims: whether what was measured agrees with what was published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from tasks.certificate import Published
from tasks.claims.claim import BoundTest, DominanceTest, EquivalenceTest, ExactTest, IntervalTest, Test
from tasks.claims.measure import LackingError, Measured
from tasks.statistics import equivalence, student_quantile
from tasks.summary import Interval

NORMAL = 1.96
"""Half width of a 95% interval in standard errors, for the published error of which only the number is known."""

EXACT = 1e-9
"""Largest difference between equal numbers: means over episodes carry rounding errors."""

SHARE = 0.5
"""Of the distance between a published number and what would say the opposite, how much an interval test may allow: as
much as lets no number agree with both."""

ONE_SEED = "one seed has no interval; run more seeds"


def decide(
    test: Test, published: Published | None, measured: Measured, intervals: Sequence[Interval]
) -> tuple[bool, str]:
    """Whether what was measured passes `test`, and what the test saw. Raises LackingError where it cannot tell."""
    match test:
        case IntervalTest():
            return _agree(test, _targets(published, len(intervals)), measured, intervals)
        case ExactTest():
            return _equal(test, _targets(published, len(intervals)), measured)
        case BoundTest():
            return _bounded(test, intervals)
        case EquivalenceTest():
            return _equivalent(test, measured)
        case DominanceTest():
            return _dominates(test, intervals)


def _targets(published: Published | None, points: int) -> tuple[float, ...]:
    if published is None or isinstance(published, str):
        raise LackingError("there is no published number to compare with")
    targets = published if isinstance(published, tuple) else (published,)
    if len(targets) != points:
        raise LackingError(f"{points} points were measured, {len(targets)} are published")
    return targets


def _agree(
    test: IntervalTest, targets: Sequence[float], measured: Measured, intervals: Sequence[Interval]
) -> tuple[bool, str]:
    halves = [_half(interval) for interval in intervals]
    errors = [
        math.hypot(half, _published_error(test, target, half, interval.n))
        for half, target, interval in zip(halves, targets, intervals, strict=True)
    ]
    gaps = [interval.mean - target for target, interval in zip(targets, intervals, strict=True)]
    excess = [abs(gap) - test.within - error for gap, error in zip(gaps, errors, strict=True)]
    worst = max(range(len(excess)), key=excess.__getitem__)
    off = f"off by {gaps[worst]:+.3g}, allowed ±{test.within + errors[worst]:.3g}"
    if len(gaps) > 1:
        outside = sum(x > 0 for x in excess)
        off = f"{outside} of {len(gaps)} points apart; the worst, published {targets[worst]:g}, {off}"
    if excess[worst] > EXACT:
        return False, off
    _check_that_it_can_tell(test, targets, measured, errors)
    return True, off


def _check_that_it_can_tell(
    test: IntervalTest, targets: Sequence[float], measured: Measured, errors: Sequence[float]
) -> None:
    """Raise LackingError where, on average over the points, a number could agree with both sides."""
    against = test.against if test.against is not None else measured.chance or 0.0
    distance = fmean(abs(target - against) for target in targets)
    allowed = test.within + fmean(errors)
    if allowed > SHARE * distance:
        raise LackingError(
            f"±{allowed:.2g} is allowed, more than half of the {distance:.3g} to {against:.3g}: too wide to tell"
        )


def _half(interval: Interval) -> float:
    low, high = _ends(interval)
    return (high - low) / 2


def _published_error(test: IntervalTest, target: float, half: float, n: int) -> float:
    """Half width of the published number's own 95% interval, where ours over `n` seeds has `half`."""
    if test.runs is not None:
        return half * math.sqrt(n / test.runs)
    if test.sd is not None:
        return student_quantile(test.seeds - 1) * test.sd / math.sqrt(test.seeds)
    if test.outcomes is not None:
        return NORMAL * math.sqrt(max(0.0, target * (1.0 - target)) / test.outcomes)
    return 0.0


def _equal(test: ExactTest, targets: Sequence[float], measured: Measured) -> tuple[bool, str]:
    allowed = EXACT if test.digits is None else 0.5 * 10.0**-test.digits

    points = zip(measured.samples, targets, strict=True)
    wrong = [
        (seed, value, target)
        for sample, target in points
        for seed, value in sample.items()
        if abs(value - target) > allowed
    ]
    if not wrong:
        return True, f"all {len(targets)} numbers are equal" if len(targets) > 1 else "equal"
    seed, value, target = wrong[0]
    others = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return False, f"{value:.6g} for {target:g} with seed {seed}{others}"


def _bounded(test: BoundTest, intervals: Sequence[Interval]) -> tuple[bool, str]:
    """An interval inside decides, and so does one wholly outside; one that holds a limit does not."""
    low = -math.inf if test.at_least is None else test.at_least
    high = math.inf if test.at_most is None else test.at_most
    ends = [_ends(interval) for interval in intervals]
    for (least, most), interval in zip(ends, intervals, strict=True):
        if most < low or least > high:
            return False, f"{interval.mean:.4g} is not {_limits(test)}"
    for least, most in ends:
        if least < low or most > high:
            raise LackingError(f"the interval {least:.4g} to {most:.4g} is not all {_limits(test)}; run more seeds")
    return True, f"{intervals[0].mean:.4g} is {_limits(test)}" if len(intervals) == 1 else f"all {_limits(test)}"


def _ends(interval: Interval) -> tuple[float, float]:
    if interval.low is None or interval.high is None:
        raise LackingError(ONE_SEED)
    return interval.low, interval.high


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
    """Below somewhere beyond the interval decides, and so does nowhere above; what is in between does not."""
    ends = [_ends(interval) for interval in intervals]
    lowest = min(interval.mean for interval in intervals)
    above = sum(low > 0 for low, _ in ends)
    reason = f"above beyond the 95% interval at {above} of {len(intervals)} sizes; smallest difference {lowest:+.3g}"
    nowhere_above = not above and all(high <= test.margin for _, high in ends)
    if nowhere_above or any(high < -test.margin for _, high in ends):
        return False, reason
    if lowest < -test.margin or not above:
        raise LackingError(f"{reason}, which does not decide; run more seeds")
    return True, reason


def describe(test: Test) -> str:
    """A test in words."""
    match test:
        case IntervalTest(within=within, outcomes=outcomes, sd=sd, seeds=seeds, runs=runs, because=because):
            error = f", published sd {sd:g} over {seeds} seeds" if sd is not None else ""
            error = error or (f", published over {outcomes} queries" if outcomes is not None else "")
            if runs is not None:
                error += f", published from {'one run' if runs == 1 else f'{runs} runs'}"
            return f"interval: 95% of both, ±{within:g}{error}{f' ({because})' if because else ''}"
        case ExactTest(digits=digits):
            if digits is None or digits >= 0:
                return "exact" if digits is None else f"exact to {digits} digits"
            return f"exact to {10**-digits:,}"
        case BoundTest(stated=stated):
            return f"bound{' stated by the paper' if stated else ' chosen for this test'}: 95% interval {_limits(test)}"
        case EquivalenceTest(margin=margin):
            return f"equivalence: two one-sided t-tests, margin {margin:g} chosen for this test"
        case DominanceTest(margin=margin):
            return f"dominance: nowhere below by more than {margin:g} (chosen for this test), somewhere above"
