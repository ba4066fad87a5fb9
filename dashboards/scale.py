"""The logarithmic size axis: its range, and ticks that a reader of budgets expects (16, 32, 64, ...)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dashboards.text import byte_count, count

MARGIN = 0.07
"""Empty space at either end, as a share of the range of log sizes."""

MOST_TICKS = 9


@dataclass(frozen=True)
class SizeScale:
    """Maps sizes in low..high to 0..1 by their logarithm. `ticks` lie inside."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def __call__(self, size: float) -> float:
        """The place of `size`, clipped to the axis."""
        clipped = min(max(size, self.low), self.high)
        return math.log(clipped / self.low) / math.log(self.high / self.low)


def size_scale(sizes: Iterable[float]) -> SizeScale:
    """A scale that shows every positive size of `sizes`; without ticks if there is none."""
    positive = [size for size in sizes if size > 0]
    if not positive:
        return SizeScale(1.0, 2.0, ())
    low, high = min(positive), max(positive)
    if high < low * 1.5:
        low, high = low / math.sqrt(2), high * math.sqrt(2)
    pad = (high / low) ** MARGIN
    low, high = low / pad, high * pad
    return SizeScale(low, high, size_ticks(low, high))


def size_ticks(low: float, high: float) -> tuple[float, ...]:
    """Powers of two (of 4, 8, ... over a long range); round numbers where fewer than three powers fit."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    stride = max(1, math.ceil((last - first + 1) / MOST_TICKS))
    powers = tuple(2.0**power for power in range(first, last + 1, stride))
    return powers if len(powers) >= 3 else round_numbers(low, high)


def round_numbers(low: float, high: float, about: int = 5) -> tuple[float, ...]:
    """At most `about` + 1 multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return tuple(k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1))


def size_writer(axis: str) -> Callable[[float], str]:
    """How sizes of `axis` (`slots` or `bytes`) are written."""
    return byte_count if axis == "bytes" else count


def with_unit(axis: str, text: str) -> str:
    """`64 slots`; bytes carry their unit already."""
    return text if axis == "bytes" else f"{text} {'slot' if text == '1' else 'slots'}"
