"""What figures for papers have in common: their size, their grid, their pens, their legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dashboards.style import DASHES, LIGHT_COLOURS, MARKERS, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

AXES_INCHES = (6.2, 3.9)
LEFT, BOTTOM, TOP = 0.65, 0.6, 0.42
LEGEND_INCHES = 2.1
"""Width of a column of the legend: its least, to which longer labels add."""

LEGEND_ROWS = 18
KEY_INCHES, LETTER_INCHES = 0.35, 0.0625
LABEL_LENGTH = 44


def paper_axes(labels: Sequence[str], left: float = LEFT) -> tuple[Figure, Axes]:
    """A new figure, and its axes with a grid, `left` inches from its edge, with room for a legend of `labels`."""
    from matplotlib.figure import Figure

    width = left + AXES_INCHES[0] + _column_inches(labels) * _columns(len(labels))
    height = BOTTOM + AXES_INCHES[1] + TOP
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((left / width, BOTTOM / height, AXES_INCHES[0] / width, AXES_INCHES[1] / height))
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def set_ticks(axis: Axis, ticks: Sequence[float], texts: Sequence[str]) -> None:
    """Put `texts` at `ticks`, and nothing between them."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FixedFormatter(list(texts)))
    axis.set_minor_locator(NullLocator())


def pen(style: Style) -> dict[str, Any]:
    """The line of `style`, as keywords of Matplotlib."""
    dashes = [length / 2 for length in DASHES[style.dash]]
    return {
        "color": LIGHT_COLOURS[style.colour],
        "linewidth": 1.3,
        "linestyle": (0, dashes) if dashes else "solid",
    }


def bound_pen(number: int) -> dict[str, Any]:
    """The line of a figure's first, second, ... bound, as keywords of Matplotlib: thin, dark, dashed but for one."""
    return {"color": "#222222", "linewidth": 0.9, "linestyle": (0, (4, 2)) if number else "solid"}


def handle(style: Style) -> Line2D:
    """What stands for `style` in a legend."""
    return key(marker=MARKERS[style.marker].matplotlib, markersize=5, **pen(style))


def key(**look: Any) -> Line2D:
    """What stands in a legend for lines and marks that look so; without a look, nothing stands there."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **(look or {"linestyle": "none"}))


def say_empty(axes: Axes, text: str) -> None:
    """Write `text` in the middle of axes that show nothing."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=14)


def draw_legend(axes: Axes, entries: Sequence[tuple[str, Line2D]], note: str) -> None:
    """A legend to the right of `axes` of (label, what stands for it), and `note` below it.

    Labels are set after the legend is made: Matplotlib drops those that begin with an underscore.
    """
    if not entries:
        return
    legend = axes.legend([shown for _, shown in entries], ["x"] * len(entries), loc="upper left",
                         bbox_to_anchor=(1.02, 1.01), ncols=_columns(len(entries)), frameon=False, fontsize=8,
                         borderaxespad=0)  # fmt: skip
    axes.annotate(note, (1.02, 0), xycoords="axes fraction", color="#555555", fontsize=7, va="bottom")
    for text, (label, _) in zip(legend.get_texts(), entries, strict=True):
        text.set_parse_math(False)
        text.set_text(short(label, LABEL_LENGTH))


def _column_inches(labels: Sequence[str]) -> float:
    longest = min(max(map(len, labels), default=0), LABEL_LENGTH)
    return max(LEGEND_INCHES, KEY_INCHES + LETTER_INCHES * longest)


def _columns(keys: int) -> int:
    return -(-max(keys, 1) // LEGEND_ROWS)


def short(text: str, length: int) -> str:
    """`text`, cut to `length` characters with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
