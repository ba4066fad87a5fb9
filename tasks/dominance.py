"""Whether one frontier lies above another over a stated range of sizes, paired by seed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from tasks.comparisons import holm, paired_p
from tasks.statistics import CONFIDENCE, UNDEFINED, Sample, paired_difference, paired_values
from tasks.summary import Interval

SLACK = 1e-6
"""How far a size may be exceeded: sizes are means over seeds, and carry rounding errors."""


@dataclass(frozen=True)
class SizedCell:
    """A cell of a frontier: its mean size, and the recall of each seed."""

    size: float
    recalls: Sample


@dataclass(frozen=True)
class Dominance:
    """What two frontiers say over low..high.

    sizes        every size at which the difference may change
    differences  of the first frontier less the second at each, with its 95% interval, paired by seed
    p            of no difference at each, two-sided, adjusted by Holm for the number of sizes; empty with one seed
    verdict      dominates: nowhere below and, beyond chance, somewhere above; dominated: the reverse; crosses: beyond
                 chance somewhere above and somewhere below; undecided otherwise; undefined: one seed
    """

    low: float
    high: float
    sizes: tuple[float, ...]
    differences: tuple[Interval, ...]
    p: tuple[float, ...]
    verdict: Literal["dominates", "dominated", "crosses", "undecided", "undefined: one seed"]


def dominance(over: Sequence[SizedCell], under: Sequence[SizedCell], low: float, high: float) -> Dominance:
    """Compare the frontier of `over` with that of `under` at every step of either in low..high.

    A frontier that takes the best of many noisy cells is flattered a little; more seeds are the cure. Raises ValueError
    unless low ≤ high, and where a frontier has no cell as small as `low`, or the two have no seed in common.
    """
    found = steps(over, under, low, high)
    differences = tuple(paired_difference(a, b) for _, a, b in found)
    sizes = tuple(size for size, _, _ in found)
    p = [paired_p(paired_values(a, b)) for _, a, b in found]
    adjusted = tuple(holm([one for one in p if one is not None]).tolist())
    if len(adjusted) < len(sizes):
        return Dominance(low, high, sizes, differences, (), UNDEFINED)
    means = [one.mean for one in differences]
    apart = [mean for mean, one in zip(means, adjusted, strict=True) if one < 1.0 - CONFIDENCE]
    above, below = any(mean > 0 for mean in apart), any(mean < 0 for mean in apart)
    verdict: Literal["dominates", "dominated", "crosses", "undecided"] = "undecided"
    if above and below:
        verdict = "crosses"
    elif above and min(means) >= 0:
        verdict = "dominates"
    elif below and max(means) <= 0:
        verdict = "dominated"
    return Dominance(low, high, sizes, differences, adjusted, verdict)


def steps(
    over: Sequence[SizedCell], under: Sequence[SizedCell], low: float, high: float
) -> list[tuple[float, Sample, Sample]]:
    """Sizes in low..high at which a frontier may change, each with the recalls of the best cell of either up to it."""
    if not low <= high:
        raise ValueError(f"dominance needs a range of sizes, low ≤ high; got {low:g} and {high:g}")
    sizes = sorted({low} | {round(cell.size, 6) for cell in (*over, *under) if low <= round(cell.size, 6) <= high})
    return list(zip(sizes, _best(over, sizes), _best(under, sizes), strict=True))


def _best(cells: Sequence[SizedCell], sizes: Sequence[float]) -> Iterator[Sample]:
    """Recalls of the cell of at most each of the rising `sizes` with the best mean, the smallest of equals."""
    rising = sorted(cells, key=lambda cell: cell.size)
    best, highest, seen = None, -math.inf, 0
    for size in sizes:
        while seen < len(rising) and rising[seen].size <= size + SLACK:
            mean = fmean(rising[seen].recalls.values())
            if mean > highest:
                best, highest = rising[seen].recalls, mean
            seen += 1
        if best is None:
            raise ValueError(f"a frontier has no cell of at most {size:g}; compare over sizes that both reach")
        yield best
