"""Intervals of single proportions: so many outcomes of one kind out of so many that are independent."""

from __future__ import annotations

import math

from tasks.statistics import CONFIDENCE
from tasks.summary import Interval


def wilson_interval(count: float, outcomes: int, noun: str = "outcomes") -> Interval:
    """The share count / outcomes with its 95% interval by Wilson's score (Wilson 1927; Brown, Cai & DasGupta 2001).

    A tie may count half: its share varies less than that of whole outcomes, so the interval then covers more than 95%.
    n of the interval is `outcomes`, of which `noun` is the plural, with an s. Raises ValueError unless
    0 ≤ count ≤ outcomes and outcomes ≥ 1.
    """
    from scipy.special import ndtri

    if outcomes < 1 or not 0 <= count <= outcomes:
        raise ValueError(f"a share needs 0 ≤ count ≤ outcomes, outcomes ≥ 1; got {count} of {outcomes}")
    z = float(ndtri((1.0 + CONFIDENCE) / 2.0))
    share = count / outcomes
    centre = (share + z * z / (2 * outcomes)) / (1 + z * z / outcomes)
    spread = share * (1 - share) / outcomes + z * z / (4 * outcomes**2)
    half = z * math.sqrt(spread) / (1 + z * z / outcomes)
    # At the ends the limit is exactly 0 or 1, which rounding would miss.
    low = 0.0 if count == 0 else centre - half
    high = 1.0 if count == outcomes else centre + half
    return Interval(share, low, high, outcomes, f"Wilson score over {outcomes} {noun if outcomes > 1 else noun[:-1]}")
