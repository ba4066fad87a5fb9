"""The axes of a chart: a range that shows every number, and ticks at numbers a reader expects."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dashboards.scale import MARGIN, MOST_TICKS, round_numbers, size_ticks

FEWEST_TICKS = 3
ABOUT = 7


@dataclass(frozen=True)
class Axis:
    """Maps low..high to 0..1, by the logarithm where `log`. `ticks` lie inside."""

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]

    def __call__(self, number: float) -> float:
        """The place of `number`, clipped to the axis."""
        clipped = min(max(number, self.low), self.high)
        if self.log:
            return math.log(clipped / self.low) / math.log(self.high / self.low)
        return (clipped - self.low) / (self.high - self.low)

    def shows(self, number: float) -> bool:
        """Whether `number` has a place on an axis of this kind: it is finite and, on a log axis, above 0."""
        return math.isfinite(number) and (number > 0 or not self.log)


def chart_axis(numbers: Iterable[float], log: bool) -> Axis:
    """An axis for those of `numbers` that it can show; without ticks if there are none."""
    shown = [number for number in numbers if math.isfinite(number) and (number > 0 or not log)]
    if not shown:
        return Axis(1.0, 2.0, log, ())
    return _log_axis(shown) if log else _linear_axis(min(shown), max(shown))


def axis_title(label: str, log: bool) -> str:
    """`label`, and that the axis is logarithmic where it is."""
    return f"{label} (log scale)" if log else label


def tick_text(number: float) -> str:
    """A tick's number in full from 0.0001 to a billion, with an exponent beyond."""
    if number == 0 or 1e-4 <= abs(number) < 1e9:
        return f"{number:,.10g}"
    mantissa, _, exponent = f"{number:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def _linear_axis(low: float, high: float) -> Axis:
    """From 0 where the numbers come near it."""
    if low == high:
        room = abs(low) / 2 or 0.5
        low, high = low - room, high + room
    if 0 < low <= high - low:
        low = 0.0
    elif low < high < 0 and -high <= high - low:
        high = 0.0
    room = MARGIN * (high - low)
    low, high = low - room * (low != 0), high + room * (high != 0)
    return Axis(low, high, False, round_numbers(low, high, ABOUT))


def _log_axis(numbers: list[float]) -> Axis:
    low, high = min(numbers), max(numbers)
    if high < low * 1.5:
        low, high = low / math.sqrt(2), high * math.sqrt(2)
    room = (high / low) ** MARGIN
    low, high = low / room, high * room
    binary = all(math.log2(number).is_integer() for number in numbers)
    return Axis(low, high, True, size_ticks(low, high) if binary else _log_ticks(low, high))


def _log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten (of 100, ... over a long range); 1, 2 and 5 times them, or round numbers, over a short one."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    powers = [10.0**power for power in range(first, last + 1)]
    decades = [power for power in powers if low <= power <= high]
    if len(decades) > FEWEST_TICKS:
        return tuple(decades[:: math.ceil(len(decades) / MOST_TICKS)])
    finer = tuple(factor * power for power in powers for factor in (1, 2, 5) if low <= factor * power <= high)
    return finer if len(finer) >= FEWEST_TICKS else round_numbers(low, high, ABOUT)
