"""The frontier of one panel as shapes in a box of WIDTH x HEIGHT, ready to be written as SVG: geometry only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dashboards.scale import SizeScale, size_scale, size_writer, with_unit
from dashboards.steps import Measured, frontier, in_front, measured
from dashboards.style import GROUPS, Look, Style, look_of
from dashboards.text import plain, plural
from tasks.summary import Curve, Interval, Panel

WIDTH, HEIGHT = 1000, 500
LEFT, RIGHT, TOP, BOTTOM = 66, 984, 12, 440
RECALL_TOP = 1.04
"""The recall axis ends a little above 1, so that marks and intervals at 1 stay whole."""

RECALL_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
LAYERS: tuple[Look, ...] = ("behind", "state", "front", "bound")
AXIS_TITLES = {"slots": "slots, measured (log scale)", "bytes": "bytes, measured (log scale)"}


@dataclass(frozen=True)
class Tick:
    """A place along an axis in units of the box, and what stands there."""

    place: float
    text: str


@dataclass(frozen=True)
class Mark:
    """One measured point: `key` is CURVE-POINT, `bars` the path of its error bars, `filled` if on the frontier."""

    key: str
    x: float
    y: float
    filled: bool
    bars: str


@dataclass(frozen=True)
class CurveShapes:
    """One mechanism: the staircase `line`, its continuation `tail` beyond the last point, its `band`, its marks.

    note: what stands beside the line of a bound where it is one, at `note_place` (x, y): bounds are in slots
    """

    number: int
    label: str
    style: Style
    look: Look
    line: str
    tail: str
    band: str
    marks: tuple[Mark, ...]
    note: str = ""
    note_place: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class View:
    """A panel drawn for one size axis and one recall metric. `notes` say what could not be drawn."""

    axis: str
    metric: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    chance: Tick | None
    reference: Tick | None
    curves: tuple[CurveShapes, ...]
    notes: tuple[str, ...]

    @property
    def layers(self) -> list[CurveShapes]:
        """The curves from the hindmost to the foremost."""
        return sorted(self.curves, key=lambda curve: LAYERS.index(curve.look))

    @property
    def groups(self) -> tuple[tuple[str, list[CurveShapes]], ...]:
        """The curves by how they are drawn, with headings; without, where they are all alike."""
        groups = [(GROUPS[look], [curve for curve in self.curves if curve.look == look]) for look in GROUPS]
        kept = tuple((heading, curves) for heading, curves in groups if curves)
        return kept if len(kept) > 1 else tuple(("", curves) for _, curves in kept)

    @property
    def x_title(self) -> str:
        """The title of the size axis."""
        return AXIS_TITLES[self.axis]


def draw(panel: Panel, axis: str, metric: str, styles: Mapping[str, Style]) -> View:
    """Lay out `panel` over `axis` (`slots` or `bytes`) for `metric` (`recall` or `recall_all`).

    Both axes of a panel stay the same whichever curves are shown. The band around a staircase is, on each step, the
    interval of the point that sets it: pointwise, not simultaneous.
    """
    lines = [measured(curve, axis, metric) for curve in panel.curves]
    front = in_front(panel)
    scale = size_scale(entry.size.mean for line in lines for entry in line)
    write = size_writer(axis)
    reference = panel.reference.get(axis)
    shown = reference is not None and scale.low <= reference <= scale.high
    return View(
        axis=axis,
        metric=metric,
        x_ticks=tuple(Tick(_x(scale, size), write(size)) for size in scale.ticks),
        y_ticks=tuple(Tick(_y(recall), f"{recall:.1f}") for recall in RECALL_TICKS),
        chance=None if panel.chance is None else Tick(_y(panel.chance), f"chance {plain(panel.chance)}"),
        reference=Tick(_x(scale, reference), f"full stream {with_unit(axis, write(reference))}")
        if shown and reference is not None
        else None,
        curves=tuple(
            _shapes(
                number,
                curve,
                line,
                axis,
                frontier(line, axis, metric),
                scale,
                styles[curve.label],
                look_of(curve, front),
            )
            for number, (curve, line) in enumerate(zip(panel.curves, lines, strict=True))
        ),
        notes=_notes(lines, axis),
    )


def _shapes(
    number: int,
    curve: Curve,
    line: Sequence[Measured],
    axis: str,
    steps: Sequence[Measured],
    scale: SizeScale,
    style: Style,
    look: Look,
) -> CurveShapes:
    on_frontier = {step.number for step in steps}
    marks = tuple(
        Mark(
            f"{number}-{entry.number}",
            _x(scale, entry.size.mean),
            _y(entry.recall.mean),
            entry.number in on_frontier,
            _bars(entry, scale),
        )
        for entry in line
        if entry.size.mean > 0
    )
    drawable = [step for step in steps if step.size.mean > 0]
    if not drawable or look == "state":
        return CurveShapes(number, curve.title, style, look, "", "", "", marks)
    corners = [(_x(scale, step.size.mean), _y(step.recall.mean)) for step in drawable]
    (x, y), *rest = corners
    stairs = "".join(f"H{shortest(right)}V{shortest(high)}" for right, high in rest)
    last_x, last_y = corners[-1]
    return CurveShapes(
        number,
        curve.title,
        style,
        look,
        f"M{shortest(x)} {shortest(y)}{stairs}" if rest else "",
        f"M{shortest(last_x)} {shortest(last_y)}H{RIGHT}",
        _band(drawable, [x for x, _ in corners]) if look == "front" else "",
        marks,
        curve.bounds if axis == "slots" else "",
        corners[len(corners) // 2],
    )


def _band(steps: Sequence[Measured], places: Sequence[float]) -> str:
    """A box for each step's interval, from its place to the next step's (the last: to the edge)."""
    boxes = []
    for step, left, right in zip(steps, places, [*places[1:], float(RIGHT)], strict=True):
        if ends := _ends(step.recall):
            low, high = (_y(end) for end in ends)
            boxes.append(f"M{shortest(left)} {shortest(low)}H{shortest(right)}V{shortest(high)}H{shortest(left)}Z")
    return "".join(boxes)


def _bars(entry: Measured, scale: SizeScale) -> str:
    """Error bars in both directions, where the interval is defined and wider than nothing."""
    x, y = _x(scale, entry.size.mean), _y(entry.recall.mean)
    path = ""
    if ends := _ends(entry.recall):
        low, high = (_y(end) for end in ends)
        path += f"M{shortest(x - 3)} {shortest(low)}h6m-3 0V{shortest(high)}m-3 0h6"
    if ends := _ends(entry.size):
        left, right = (_x(scale, end) for end in ends)
        path += f"M{shortest(left)} {shortest(y - 3)}v6m0-3H{shortest(right)}m0-3v6"
    return path


def _ends(interval: Interval) -> tuple[float, float] | None:
    if interval.low is None or interval.high is None or interval.low == interval.high:
        return None
    return interval.low, interval.high


def _notes(lines: Sequence[Sequence[Measured]], axis: str) -> tuple[str, ...]:
    empty = sum(entry.size.mean <= 0 for line in lines for entry in line)
    if not empty:
        return ()
    return (f"{plural(empty, 'point')} with no {axis} cannot stand on a log axis and appears in the table only.",)


def _x(scale: SizeScale, size: float) -> float:
    return LEFT + scale(size) * (RIGHT - LEFT)


def _y(recall: float) -> float:
    return BOTTOM - min(max(recall, 0.0), RECALL_TOP) / RECALL_TOP * (BOTTOM - TOP)


def shortest(number: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{number:.1f}".removesuffix(".0")
