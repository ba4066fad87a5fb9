"""What tells curves apart: a colour, a marker shape and a filled or hollow mark, the same for a label in every panel.

The colours start from Okabe and Ito's palette (2008), darkened on white and lightened on black until each keeps a
contrast of 3:1 to its background (WCAG 2.2, 1.4.11). Shape repeats what colour says, so colour is never needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tasks.summary import Panel

LIGHT_COLOURS = ("#0067a8", "#d2520a", "#00805c", "#a8468a", "#8a6a00", "#3a3a3a", "#2b8cc4", "#b3202c")
DARK_COLOURS = ("#5aa9f0", "#ff8f4d", "#2fc79a", "#e58ac6", "#e3bf3f", "#d0d0d0", "#8fd3ff", "#ff7a85")


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


@dataclass(frozen=True)
class Style:
    """Indices into the colours and into MARKERS."""

    colour: int
    marker: int


def styles(panels: Iterable[Panel]) -> dict[str, Style]:
    """A style for each curve's label, in order of first appearance."""
    labels = dict.fromkeys(curve.label for panel in panels for curve in panel.curves)
    return {label: Style(i % len(LIGHT_COLOURS), i % len(MARKERS)) for i, label in enumerate(labels)}
