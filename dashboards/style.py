"""What tells curves apart: a colour, a marker shape and a filled or hollow mark, the same for a label in every panel.

The colours start from Okabe and Ito's (2008), moved until each has a contrast of 3:1 to its background (WCAG 2.2,
1.4.11) and any two stay apart for normal vision and for each full colour blindness (Machado, Oliveira and Fernandes
2009). Shape repeats what colour says, so colour is never needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dashboards.steps import in_front
from tasks.summary import Chart, Curve, Panel

LIGHT_COLOURS = ("#0047ba", "#e83515", "#1a7a4b", "#982b9b", "#778118", "#3c3d42", "#4b7ed2", "#973725")
DARK_COLOURS = ("#5289fc", "#e99044", "#3ec8b2", "#c47ccb", "#fdcf3e", "#dae8b5", "#b1e2ff", "#f85a77")


@dataclass(frozen=True)
class Marker:
    """A mark in a box of -5..5: as an SVG path, and its name in Matplotlib."""

    path: str
    matplotlib: str


MARKERS = (
    Marker("M-4.4 0A4.4 4.4 0 1 0 4.4 0A4.4 4.4 0 1 0-4.4 0Z", "o"),
    Marker("M-4-4H4V4H-4Z", "s"),
    Marker("M0-5.2L5 3.8H-5Z", "^"),
    Marker("M0-5.8L5.2 0L0 5.8L-5.2 0Z", "D"),
    Marker("M-1.8-5H1.8V-1.8H5V1.8H1.8V5H-1.8V1.8H-5V-1.8H-1.8Z", "P"),
    Marker("M0 5.2L5-3.8H-5Z", "v"),
    Marker("M0-6L1.6-1.9 6-1.9 2.5.8 3.7 5 0 2.5-3.7 5-2.5.8-6-1.9-1.6-1.9Z", "*"),
    Marker("M-2.5-5L0-2.5 2.5-5 5-2.5 2.5 0 5 2.5 2.5 5 0 2.5-2.5 5-5 2.5-2.5 0-5-2.5Z", "X"),
    Marker("M5.2 0L2.6 4.6H-2.6L-5.2 0L-2.6-4.6H2.6Z", "H"),
)
"""One more than there are colours: the pairs repeat only after 72 curves."""


DASHES = ((), (10, 4), (10, 3, 2, 3), (5, 3))
"""Strokes and gaps in half points: solid for eight curves, then a new pattern whenever the colours start again."""


@dataclass(frozen=True)
class Style:
    """Indices into the colours, MARKERS and DASHES."""

    colour: int
    marker: int
    dash: int


Look = Literal["front", "behind", "state", "bound"]
"""How a frontier figure draws a curve: a staircase in colour; one in grey, behind those; marks alone, of a state of
fixed size; a thin dark line, of a bound."""

GROUPS: dict[Look, str] = {
    "front": "memories",
    "behind": "memories never best, in grey",
    "state": "states of fixed size",
    "bound": "bounds",
}
"""Headings of a legend, for its groups from first to last."""


def look_of(curve: Curve, front: frozenset[str]) -> Look:
    """How to draw `curve` where the memories of `front` are shown in colour."""
    if curve.role != "memory":
        return curve.role
    return "front" if curve.label in front else "behind"


def styles(panels: Sequence[Panel], charts: Iterable[Chart] = ()) -> dict[str, Style]:
    """A style for each label of a curve, then of a chart's line, in order of first appearance.

    Where some memories are drawn in grey, the others come first, so that those in colour differ most.
    """
    shown = [
        (curve.label, look_of(curve, front))
        for panel in panels
        for front in [in_front(panel)]
        for curve in panel.curves
    ]
    behind = {label for label, look in shown if look == "behind"} - {label for label, look in shown if look == "front"}
    labels = dict.fromkeys(label for label, _ in shown)
    if behind:
        labels = dict.fromkeys(sorted(labels, key=lambda label: label in behind))
    labels |= dict.fromkeys(line.label for chart in charts for line in chart.lines)
    colours = len(LIGHT_COLOURS)
    return {label: Style(i % colours, i % len(MARKERS), i // colours % len(DASHES)) for i, label in enumerate(labels)}


def band_opacity(curves: int) -> float:
    """How strongly interval bands are filled: less where many lie on each other."""
    return round(min(0.16, max(0.03, 0.9 / max(curves, 1))), 3)
