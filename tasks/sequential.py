"""Seeds until an interval is narrow enough: how many more a first stage asks for, and the interval that then holds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.stream import Floats
from tasks.statistics import binomial_limit, deviation, mean_interval, student_quantile
from tasks.summary import Interval

FIRST_STAGE = 10
"""Seeds of the first stage. The fewer, the less sure the deviation, and the larger the second stage: with 10, a third
more seeds than a known deviation would ask for."""


@dataclass(frozen=True)
class FixedWidth:
    """Stein's two-stage procedure: the mean of a metric within ± `half_width`, with 95% confidence (Stein 1945).

    The first `first` seeds tell the deviation s, and s alone tells how many seeds there will be:
    n = ⌈(t s / half_width)²⌉, at least `first` and at most `most`, t being Student's for first - 1 degrees of freedom.
    Then mean ± t s / √n covers with exactly 95% for normal values, although n depends on them: s says nothing about the
    mean. Intervals that look at every seed and stop once they are narrow cover less. The same s and n hold for any
    linear combination, such as a paired difference, if all cells take the largest n that one of them asks for.

    Raises ValueError unless half_width > 0 and most ≥ 2.
    """

    half_width: float
    most: int
    first: int = FIRST_STAGE

    def __post_init__(self) -> None:
        if not (self.half_width > 0 and self.most >= 2 and self.first >= 2):
            raise ValueError(
                f"seeds until an interval is narrow need half_width > 0 and max ≥ 2; "
                f"got {self.half_width:g} and {min(self.most, self.first)}"
            )

    @property
    def stage(self) -> int:
        """Seeds of the first stage."""
        return min(self.first, self.most)

    def seeds_needed(self, values: Floats, outcomes: int | None = None) -> int:
        """How many seeds there must be in all, from the values [≥ stage] of the seeds so far, by rising seed.

        Only the first stage is looked at, so that asking again gives the same answer. Values without spread give the
        seeds that narrow the exact binomial interval (see `mean_intervals`) where `outcomes` is known and all are 0 or
        all 1; else they ask for no more. Raises ValueError for values of fewer seeds than the first stage has.
        """
        first = self._first(values)
        spread = deviation(first)
        if spread > 0.0:
            wanted = math.ceil((student_quantile(self.stage - 1) * spread / self.half_width) ** 2)
        elif outcomes is not None and first[0] in (0.0, 1.0):
            wanted = _binomial_seeds(2.0 * self.half_width, outcomes)
        else:
            wanted = self.stage
        return min(max(wanted, self.stage), self.most)

    def interval(
        self, values: Floats, *, bounds: tuple[float, float] = (-np.inf, np.inf), outcomes: int | None = None
    ) -> Interval:
        """Mean of the `values` [n] of all seeds, by rising seed, with its 95% interval. bounds: see `mean_intervals`.

        If the first stage had no spread, the interval is Student's over all seeds, or what `mean_interval` gives where
        they have none either. Raises ValueError for values of fewer seeds than the first stage has.
        """
        first = self._first(values)
        spread = deviation(first)
        if spread == 0.0:
            return mean_interval(values, bounds=bounds, outcomes=outcomes)
        mean, half = float(values.mean()), student_quantile(self.stage - 1) * spread / math.sqrt(len(values))
        reached = "" if half <= self.half_width * (1 + 1e-12) else f", ± {self.half_width:g} not reached"
        method = f"Stein's two stages over {len(values)} seeds, the first {self.stage} telling how many{reached}"
        return Interval(mean, max(bounds[0], mean - half), min(bounds[1], mean + half), len(values), method)

    def reaches(self, values: Floats, outcomes: int | None = None) -> bool:
        """Whether the interval over the `values` of all seeds is as narrow as asked for."""
        found = self.interval(values, outcomes=outcomes)
        return (
            found.low is not None and found.high is not None and found.high - found.low <= 2 * self.half_width + 1e-12
        )

    def _first(self, values: Floats) -> Floats:
        if len(values) < self.stage or not np.isfinite(values).all():
            raise ValueError(f"the first stage needs finite values of {self.stage} seeds; got {values!r}")
        return values[: self.stage]


def _binomial_seeds(width: float, outcomes: int) -> int:
    """The fewest seeds of `outcomes` each, all alike, whose exact binomial interval is at most `width` wide."""
    if width >= 1.0:
        return 1
    rate = math.log(1.0 - binomial_limit(1)) / math.log1p(-width)
    return max(1, math.ceil(rate / outcomes))


@dataclass(frozen=True)
class SeedsUntil:
    """Seeds are added to every cell until the mean of `metric` is known well enough."""

    metric: str
    rule: FixedWidth

    def covers(self, metric: str, seeds: int) -> bool:
        """Whether the rule tells the interval of `metric`: not of other metrics, and not before its first stage."""
        return metric == self.metric and seeds >= self.rule.stage


def metric_interval(
    until: SeedsUntil | None,
    metric: str,
    values: Floats,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    outcomes: int | None = None,
) -> Interval:
    """The mean of `metric` over seeds, from `values` [n] by rising seed: by the rule that added them, if one did."""
    if until is not None and until.covers(metric, len(values)):
        return until.rule.interval(values, bounds=bounds, outcomes=outcomes)
    return mean_interval(values, bounds=bounds, outcomes=outcomes)
