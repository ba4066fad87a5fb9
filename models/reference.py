"""Small plain pieces that references are written with. Speed is no concern here; reading is."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence

from models.mechanism import TIE, Trace
from models.stream import Floats, Stream, round_keys, unit


def unit_keys(stream: Stream, dtype: str) -> Floats:
    """Keys [L, d] as a memory of `dtype` stores them, scaled to length 1 in float64."""
    return unit(round_keys(stream.keys, dtype))


def arrivals(stream: Stream) -> Iterator[tuple[int, bool]]:
    """Each token up to the last phase end, and whether a phase ends with it."""
    ends = {phase.end for phase in stream.phases}
    for t in range(stream.phases[-1].end):
        yield t, t + 1 in ends


def keep_all(stream: Stream) -> Trace:
    """What a memory that drops nothing holds."""
    trace = Trace()
    for t, phase_ends in arrivals(stream):
        trace.count(t + 1)
        if phase_ends:
            trace.record(range(t + 1), stream)
    return trace


def keep_newest(stream: Stream, budget: int) -> Trace:
    """What a memory holds that drops the oldest of more than `budget` tokens."""
    trace = Trace()
    window: deque[int] = deque(maxlen=budget)
    for t, phase_ends in arrivals(stream):
        window.append(t)
        trace.count(len(window))
        if phase_ends:
            trace.record(window, stream)
    return trace


def cosine(a: Floats, b: Floats) -> float:
    """Cosine of two unit (or zero) keys, within [-1, 1]."""
    return max(-1.0, min(1.0, math.fsum(x * y for x, y in zip(a, b, strict=True))))


def attention(keys: Floats, query: int, tokens: Sequence[int], temperature: float) -> list[float]:
    """Softmax over `tokens` of their cosines with token `query`."""
    weights = [math.exp((cosine(keys[query], keys[token]) - 1.0) / temperature) for token in tokens]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def lowest(scores: Sequence[float], trace: Trace, *, relative: bool, tie: float = TIE) -> int:
    """Index of the smallest score, the lowest index within a tie; notes in `trace` by how much it was decided.

    `tie` and the noted gap are absolute, or fractions of the smallest score where `relative`.
    """
    least = min(scores)
    scale = abs(least) if relative else 1.0
    gaps = [score - least for score in scores if score - least > tie * scale]
    trace.decide(min(gaps, default=math.inf) / max(scale, 1e-300))
    return next(index for index, score in enumerate(scores) if score - least <= tie * scale)


def highest(scores: Sequence[float], trace: Trace, *, relative: bool, tie: float = TIE) -> int:
    """Index of the largest score; otherwise as `lowest`."""
    return lowest([-score for score in scores], trace, relative=relative, tie=tie)


def top(scores: Sequence[float], count: int, trace: Trace) -> list[int]:
    """Indices, rising, of the `count` largest of non-negative scores; the lowest indices within a (relative) tie."""
    if count >= len(scores) or count == 0:
        return list(range(len(scores)))[:count]
    border = sorted(scores, reverse=True)[count - 1]
    clear = [i for i, score in enumerate(scores) if score > border * (1.0 + TIE)]
    tied = [i for i, score in enumerate(scores) if abs(score - border) <= border * TIE]
    others = [abs(score - border) for i, score in enumerate(scores) if i not in {*tied}]
    trace.decide(min(others, default=math.inf) / max(border, 1e-300))
    return sorted(clear + tied[: count - len(clear)])
