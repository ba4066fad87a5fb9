"""The findings of a sweep in plain words, generated from its numbers: what was reached, at what size, how surely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.scale import size_writer, with_unit
from dashboards.steps import (
    Measured,
    best_within,
    checkpoints,
    in_front,
    measured,
    metric_of,
    recalls_of,
    smallest_reaching,
)
from dashboards.style import look_of
from dashboards.tables import rows_of
from dashboards.text import bounds, byte_count, duration, estimate, fraction, listing, plain, plural, settings
from tasks.summary import Interval, Panel, Point, ReportInput

TARGET = 0.99
"""The recall that counts as keeping nearly everything."""

MOST_SIZES = 4


@dataclass(frozen=True)
class _Line:
    label: str
    entries: list[Measured]


def overview(report: ReportInput) -> str:
    """What ran and what became of it, in one or two sentences."""
    counts = report.counts
    trials, done = counts.get("trials", 0), counts.get("done", 0)
    text = f"{_compared(report.summary.panels)}{done:,} of {plural(trials, 'trial')} finished"
    if report.seconds is not None:
        text += f", computed in {duration(report.seconds)}"
    if reused := counts.get("reused", 0):
        text += f"; {reused:,} of {trials:,} were reused from earlier sweeps"
    text += "."
    if failed := counts.get("failed", 0):
        text += f" {plural(failed, 'trial')} failed."
    if report.state not in ("done", "failed"):
        text += f" The sweep is {report.state}: the numbers below are partial."
    return text


def _compared(panels: Sequence[Panel]) -> str:
    """What the panels compare; nothing where there are none."""
    if not panels:
        return ""
    mechanisms = len({curve.mechanism for panel in panels for curve in panel.curves})
    cells = sum(1 for panel in panels for _ in rows_of(panel))
    return f"{plural(mechanisms, 'mechanism')} in {plural(cells, 'cell')} on {plural(len(panels), 'workload')}: "


def findings(panel: Panel) -> str:
    """What the numbers of `panel` say about recall against slots, or where it has none, against bytes.

    Bounds left aside: which curves reach a mean recall of 0.99 and at what measured size, which never do, and which is
    best at or under a few sizes. Statements are about means; intervals stand beside them, and no difference is called
    significant.
    """
    metric = next(iter(recalls_of(panel)), None)
    if metric is None:
        return "No trial has finished, so there is nothing to compare yet."
    axis = panel.axes[0]
    lines = [_Line(curve.label, measured(curve, axis, metric)) for curve in panel.curves if curve.role != "bound"]
    reached = [(line.label, found) for line in lines if (found := smallest_reaching(line.entries, TARGET))]
    reached.sort(key=lambda pair: pair[1].size.mean)
    sentences = [
        _reaching(reached, axis, metric),
        _missing(lines, axis, bool(reached)),
        _best(panel, lines, axis, metric),
    ]
    if panel.chance is not None:
        sentences.append(f"Chance is {plain(panel.chance)}.")
    sentences.append(_basis([point for _, point in rows_of(panel)]))
    return " ".join(sentence for sentence in sentences if sentence)


def _reaching(reached: Sequence[tuple[str, Measured]], axis: str, metric: str) -> str:
    """The curves that reach the target, those of smallest size first; equal points are named together."""
    together: dict[str, list[str]] = {}
    for label, found in reached:
        together.setdefault(_where(found, axis), []).append(label)
    if not together:
        return ""
    named = listing([f"{listing(labels)} {where}" for where, labels in together.items()])
    unsure = [label for label, found in reached if found.recall.low is not None and found.recall.low < TARGET]
    caution = f" Intervals that begin below {TARGET}: {listing(unsure)}." if unsure else ""
    return f"A mean {metric} of {TARGET} or more is reached by {named}.{caution}"


def _where(found: Measured, axis: str) -> str:
    """`at 64.02 slots [63.99, 64.06] (8.25 KiB, tau 0.4; 0.998 [0.997, 0.999])`.

    A setting that only repeats the size, such as a budget, is left out.
    """
    size, write = found.size, size_writer(axis)
    where = f"at {with_unit(axis, write(size.mean))}"
    if size.low != size.high:
        where += f" {bounds(size, write)}"
    stored = metric_of(found.point, "bytes") if axis != "bytes" else None
    details = [byte_count(stored.mean)] if stored else []
    options = {name: item for name, item in found.point.settings.items() if item != size.mean}
    details += [settings(options)] if options else []
    return f"{where} ({', '.join(details)}{'; ' if details else ''}{_number(found.recall)})"


def _number(recall: Interval) -> str:
    """`0.998 [0.997, 0.999]`; the mean alone where there is no interval, which `_basis` explains."""
    return fraction(recall.mean) if recall.low is None else estimate(recall, fraction)


def _basis(points: Sequence[Point]) -> str:
    """How many seeds stand behind the numbers."""
    seeds = sorted({point.done for point in points if point.done})
    number = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    text = f"Numbers are means over {number} {'seed' if seeds == [1] else 'seeds'}"
    if seeds == [1]:
        return f"{text}, so that no interval is defined."
    return f"{text} with 95% intervals{' where there is more than one seed' if seeds[0] == 1 else ''}."


def _missing(lines: Sequence[_Line], axis: str, some_reach: bool) -> str:
    """The curves that never reach the target, best first."""
    short = [(line.label, max(line.entries, key=lambda entry: entry.recall.mean)) for line in lines if line.entries]
    short = [(label, best) for label, best in short if best.recall.mean < TARGET]
    if not short:
        return ""
    short.sort(key=lambda pair: -pair[1].recall.mean)
    named = listing(
        [
            f"{label} (best {_number(best.recall)} at {with_unit(axis, size_writer(axis)(best.size.mean))})"
            for label, best in short
        ]
    )
    return f"{TARGET} is not reached by {named}." if some_reach else f"No mechanism reaches {TARGET}: {named}."


def _best(panel: Panel, lines: Sequence[_Line], axis: str, metric: str) -> str:
    """The best curve at or under the smallest sizes compared, up to the first that reaches the target."""
    phrases = []
    for size in checkpoints(panel, axis, metric):
        found = [(line.label, best) for line in lines if (best := best_within(line.entries, size))]
        if len(found) < 2:
            continue
        top = max(best.recall.mean for _, best in found)
        leaders = [(label, best) for label, best in found if best.recall.mean == top]
        names = listing([label for label, _ in leaders])
        under = with_unit(axis, size_writer(axis)(size))
        phrases.append(f"at or under {under} {names} ({_number(leaders[0][1].recall)})")
        if top >= TARGET or len(phrases) == MOST_SIZES:
            break
    return f"Best in the mean: {'; '.join(phrases)}." if phrases else ""


def look_notes(panel: Panel) -> tuple[str, ...]:
    """What figures of `panel` draw otherwise than most curves, and why."""
    front = in_front(panel)
    looks = {look_of(curve, front) for curve in panel.curves}
    notes = {
        "behind": "Memories in grey are never the best of all at or under a size, in slots or in bytes; pointing at "
        "their marks shows their names.",
        "state": "States of fixed size are marks alone; their rows count as slots.",
        "bound": "Thin dark lines are bounds in slots, of that alone which stands beside their names: states of fixed "
        "size may lie above them.",
    }
    return tuple(text for look, text in notes.items() if look in looks)


def scale_notes(panel: Panel) -> tuple[str, ...]:
    """What hypervolume and area are relative to, and how their intervals were computed."""
    notes = []
    for axis in panel.axes:
        write = size_writer(axis)
        reference, span = panel.reference.get(axis), panel.size_range.get(axis)
        if reference is not None:
            notes.append(f"Hypervolume over {axis}: reference size {with_unit(axis, write(reference))}, recall 0.")
        if span is not None:
            low, high = (write(size) for size in span)
            notes.append(f"Area over {axis}: from {low} to {with_unit(axis, high)}.")
    methods = dict.fromkeys(
        number.method
        for curve in panel.curves
        for number in (*curve.hypervolume.values(), *curve.area.values())
        if number is not None
    )
    if methods:
        notes.append(f"Intervals: {'; '.join(methods)}.")
    return tuple(notes)
