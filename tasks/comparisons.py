"""Comparisons of mechanisms paired by seed: effect sizes, p-values adjusted for their number, what could be seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from models.stream import Floats
from tasks.proportions import wilson_interval
from tasks.search import Direction
from tasks.statistics import (
    CONFIDENCE,
    UNDEFINED,
    Equivalence,
    Sample,
    deviation,
    equivalence,
    paired_values,
    student_quantile,
)
from tasks.summary import Interval

POWER = 0.8
NO_SPREAD = "undecided: no spread"

MOST_PAIRED = 8
"""Names up to which all are compared with each other."""

FAR = 1000.0
"""Values of t beyond which effects are so large that nothing but their size is left to tell."""


@dataclass(frozen=True)
class Comparison:
    """Two things measured with the same seeds: a less b.

    difference   their paired difference with its 95% interval
    p            of no difference, by a two-sided paired t-test
    effect       the difference in standard deviations of the differences, Hedges' g
    superiority  the share of seeds in which a is better than b, ties counted half
    equivalence  whether the two are equal to within the margin, by itself
    detectable   the smallest difference that as many seeds would show with 80% power
    holm         p adjusted by Holm for all comparisons made together
    discovery    p adjusted by Benjamini & Hochberg for the same
    equal        the p-value of `equivalence` adjusted by Holm

    A number is None where it is undefined: all but `difference` and `superiority` with one seed, `effect` and
    `detectable` also where the differences have no spread, `equal` where all are 0 and how many outcomes are
    behind them is not known.
    """

    a: str
    b: str
    difference: Interval
    p: float | None
    effect: Interval | None
    superiority: Interval
    equivalence: Equivalence
    detectable: float | None
    holm: float | None = None
    discovery: float | None = None
    equal: float | None = None

    @property
    def verdict(self) -> str:
        """In words, after Holm: equal, differ, differ by less than the margin, undecided, or undefined: one seed."""
        if self.holm is None:
            return UNDEFINED
        apart = self.holm < 1.0 - CONFIDENCE
        if self.equal is None:
            return "differ" if apart else NO_SPREAD
        if self.equal < 1.0 - CONFIDENCE:
            return f"differ by less than {self.equivalence.margin:g}" if apart else "equal"
        return "differ" if apart else "undecided"


def every_pair(names: Sequence[str]) -> list[tuple[str, str]]:
    """Each of `names` with every one before it, which comes second; with the first alone where there are very many."""
    befores = names if len(names) <= MOST_PAIRED else names[:1]
    return [(name, before) for before, name in combinations(names, 2) if before in befores]


def compare_all(
    samples: Mapping[str, Sample],
    pairs: Iterable[tuple[str, str]],
    margin: float,
    outcomes: int | None = None,
    better: Direction = "maximize",
) -> list[Comparison]:
    """The `pairs` of `samples` compared that share a seed, with p-values adjusted for the number of comparisons.

    margin: differences that are smaller count as none in the tests of equivalence.
    outcomes: how many independent outcomes in 0..1 each value is the mean of, where that is known
    better: `minimize` where lower values are the better ones, as of losses
    """
    pairs = [(a, b) for a, b in pairs if samples[a].keys() & samples[b].keys()]
    compared = [compare(a, b, samples[a], samples[b], margin, outcomes, better) for a, b in pairs]
    tested = [i for i, one in enumerate(compared) if one.p is not None]
    p = [one.p for one in compared if one.p is not None]
    adjusted = np.stack([holm(p), benjamini_hochberg(p)], axis=1).tolist()
    for i, (by_holm, by_discovery) in zip(tested, adjusted, strict=True):
        compared[i] = replace(compared[i], holm=by_holm, discovery=by_discovery)
    told = [i for i, one in enumerate(compared) if one.equivalence.p is not None]
    equal = [one.equivalence.p for one in compared if one.equivalence.p is not None]
    for i, by_equal in zip(told, holm(equal).tolist(), strict=True):
        compared[i] = replace(compared[i], equal=by_equal)
    return compared


def compare(
    name_a: str,
    name_b: str,
    a: Sample,
    b: Sample,
    margin: float,
    outcomes: int | None = None,
    better: Direction = "maximize",
) -> Comparison:
    """One comparison, not adjusted. Raises ValueError unless margin > 0, or if there is no common seed.

    Differences of which all are 0 show no equality, unless `outcomes` (see `compare_all`) tell what they might be.
    """
    differences = paired_values(a, b)
    same = equivalence(a, b, margin, outcomes)
    if len(differences) > 1 and not differences.any() and outcomes is None:
        same = replace(same, p=None, equal=None, method=NO_SPREAD)
    ahead = differences < 0 if better == "minimize" else differences > 0
    wins = float(ahead.sum() + 0.5 * (differences == 0).sum())
    return Comparison(
        a=name_a,
        b=name_b,
        difference=same.difference,
        p=paired_p(differences),
        effect=hedges_g(differences),
        superiority=wilson_interval(wins, len(differences), "seeds"),
        equivalence=same,
        detectable=detectable_difference(differences),
    )


def paired_p(differences: Floats) -> float | None:
    """Two-sided p-value of a mean of 0 by Student's t-test of `differences` [n], one a seed; None for one.

    Equal differences have no spread to judge by, and a few seeds of a coarse metric easily agree: then it is that of
    the sign test, 2^(1 - n).
    """
    from scipy.special import stdtr

    n = len(differences)
    if n < 2:
        return None
    mean, sd = float(differences.mean()), deviation(differences)
    if sd == 0.0:
        return 1.0 if mean == 0.0 else 2.0 ** (1 - n)
    return float(2.0 * stdtr(n - 1, -abs(mean) / sd * math.sqrt(n)))


def hedges_g(differences: Floats) -> Interval | None:
    """Paired Cohen's d of `differences` [n], their mean over their standard deviation, less its bias (Hedges 1981).

    The interval is exact for normal differences: the standardised means for which a noncentral t as extreme as that
    seen has 2.5% on either side (Cumming & Finch 2001), with the same correction. None for fewer than three
    differences, for which the correction does not exist, or ones without spread.
    """
    from scipy.special import gammaln

    n = len(differences)
    if n < 3 or not (sd := deviation(differences)) > 0.0:
        return None
    freedom = n - 1
    unbiased = math.exp(gammaln(freedom / 2) - gammaln((freedom - 1) / 2)) / math.sqrt(freedom / 2)
    t = float(differences.mean()) / sd * math.sqrt(n)
    tails = (1.0 + CONFIDENCE) / 2.0, (1.0 - CONFIDENCE) / 2.0
    low, high = (unbiased * _noncentrality(freedom, tail, t) / math.sqrt(n) for tail in tails)
    return Interval(unbiased * t / math.sqrt(n), low, high, n, f"Hedges' g, noncentral t over {n} seeds")


def _noncentrality(freedom: int, below: float, t: float) -> float:
    """The noncentrality at which Student's t lies below `t` with probability `below`."""
    from scipy.special import chdtri, nctdtrinc

    if abs(t) < FAR:
        return float(nctdtrinc(freedom, below, t))
    # So far out only the estimated deviation matters, and scipy's search takes for ever.
    return t * math.sqrt(float(chdtri(freedom, below if t > 0 else 1.0 - below)) / freedom)


def detectable_difference(differences: Floats) -> float | None:
    """The smallest mean difference that a paired t-test at 5% over n seeds shows with 80% power.

    differences [n] tell the standard deviation to expect (Cohen 1988, §2). None for fewer than two, or ones without
    spread. The chance of finding a difference of the wrong sign, below one in 10,000, is left out.
    """
    n = len(differences)
    if n < 2 or not (sd := deviation(differences)) > 0.0:
        return None
    return _noncentrality(n - 1, 1.0 - POWER, student_quantile(n - 1)) * sd / math.sqrt(n)


def holm(p_values: ArrayLike) -> Floats:
    """P-values [m] adjusted by Holm's step-down method (Holm 1979): below 5%, the chance of any false finding is."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """P-values [m] adjusted by Benjamini & Hochberg (1995): below 5%, no more of the findings are expected to be false.

    For independent tests, or ones that depend on each other positively.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted
