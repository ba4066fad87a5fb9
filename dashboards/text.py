"""Numbers as people read them: one way to write a recall, a size, a duration and an interval, for every table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tasks.summary import Interval

KIB = 1024
BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
MISSING = "–"

FRACTIONS = frozenset({"recall", "recall_all", "recall_credited", "abstained"})


def fraction(value: float) -> str:
    """A share of 1 with three decimals, or as many more (up to six) as keep 0.9996 from reading 1.000."""
    for digits in range(3, 7):
        text = f"{value:.{digits}f}"
        if float(text) not in (0.0, 1.0) or value in (0.0, 1.0):
            return text
    return f"{round(value):.3f}"


def count(value: float) -> str:
    """A number of slots or other things: thousands separated, decimals only for what is not whole."""
    digits = 0 if value == round(value) or abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f}"


def byte_count(value: float) -> str:
    """A number of bytes in the largest binary unit that leaves at least 1, with three significant digits."""
    unit = 0
    while abs(value) >= KIB and unit < len(BYTE_UNITS) - 1:
        value /= KIB
        unit += 1
    digits = 0 if value == round(value) or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {BYTE_UNITS[unit]}"


def plain(value: float) -> str:
    """Any other measured number, with four significant digits."""
    return f"{value:.4g}"


def measure(value: float) -> str:
    """Any measured number where large ones occur: four significant digits, thousands separated."""
    return count(value) if 1000 <= abs(value) < 1e15 else plain(value)


def duration(seconds: float) -> str:
    """Seconds as `0.8 s`, `12 s`, `3 min 20 s` or `2 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def writer(metric: str) -> Callable[[float], str]:
    """The function that writes values of `metric`."""
    if metric in FRACTIONS:
        return fraction
    if metric.startswith(("slots", "bytes", "tokens", "items")):
        return count
    return plain


def column_writer(name: str) -> Callable[[float], str]:
    """The function that writes the numbers of a table's column `name`, a metric's or `METRIC, which of it`."""
    write = writer(name.partition(",")[0])
    return measure if write is plain else write


def bounds(interval: Interval, write: Callable[[float], str]) -> str:
    """`[low, high]`, or `[undefined]`."""
    if interval.low is None or interval.high is None:
        return "[undefined]"
    return f"[{write(interval.low)}, {write(interval.high)}]"


def estimate(interval: Interval, write: Callable[[float], str]) -> str:
    """`mean [low, high]`."""
    return f"{write(interval.mean)} {bounds(interval, write)}"


def value(item: Any) -> str:
    """One setting or recorded fact."""
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, float):
        return f"{item:.12g}"
    return str(item)


def settings(items: Mapping[str, Any]) -> str:
    """Settings as `budget 64, decay 0.99`; a dash where nothing varies."""
    return ", ".join(f"{name} {value(item)}" for name, item in items.items()) or MISSING


def listing(words: Sequence[str], most: int = 4) -> str:
    """`a, b and c`; beyond `most` words the rest is counted: `a, b, c, d and 3 more`."""
    shown = list(words[:most])
    if len(words) > most:
        shown.append(f"{len(words) - most} more")
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def plural(number: int, noun: str, many: str | None = None) -> str:
    """`1 seed`, `10 seeds`."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def finite(interval: Interval | None) -> Interval | None:
    """`interval`, or None where its mean is not a finite number; a bound that is not finite is undefined."""
    if interval is None or not math.isfinite(interval.mean):
        return None
    low, high = interval.low, interval.high
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return Interval(interval.mean, None, None, interval.n, interval.method)
    return interval
