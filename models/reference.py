"""Small plain pieces that references are written with. Speed is no concern here; reading is."""

from __future__ import annotations

import math

from models.stream import Floats, Stream, round_keys, unit


def unit_keys(stream: Stream, dtype: str) -> Floats:
    """Keys [L, d] as a memory of `dtype` stores them, scaled to length 1 in float64."""
    return unit(round_keys(stream.keys, dtype))


def cosine(a: Floats, b: Floats) -> float:
    """Cosine of two unit (or zero) keys, within [-1, 1]."""
    return max(-1.0, min(1.0, math.fsum(x * y for x, y in zip(a, b, strict=True))))


def first_argmax(scores: list[float]) -> int:
    """Index of the largest score; ties to the lowest index."""
    return max(range(len(scores)), key=lambda i: (scores[i], -i))


def first_argmin(scores: list[float]) -> int:
    """Index of the smallest score; ties to the lowest index."""
    return min(range(len(scores)), key=lambda i: (scores[i], i))


def lowest_gap(scores: list[float]) -> float:
    """Relative gap between the two lowest scores: 0 for an exact tie, infinite for fewer than two scores."""
    if len(scores) < 2:
        return math.inf
    lowest, second = sorted(scores)[:2]
    return (second - lowest) / max(abs(second), abs(lowest), 1e-300)
