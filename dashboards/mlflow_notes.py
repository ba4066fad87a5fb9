"""The descriptions that MLflow shows beside runs: what a sweep is, what it says, and how to find its trials."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dashboards.grids import printed_rows
from dashboards.markup import markdown_table, markdown_text
from dashboards.steps import measured, metric_of, recalls_of
from dashboards.text import MISSING, estimate, listing, plural, settings, writer
from dashboards.words import findings, overview
from tasks.staircase import on_frontier
from tasks.summary import Grid, Panel, ReportInput, Section

NOTE_LENGTH = 7900
"""Most characters of a run's description; MLflow takes 8,000."""

VERDICT_LENGTH = 5500
MOST_ROWS = 12
MOST_NAMED = 12


@dataclass(frozen=True)
class SweepNote:
    """What a sweep's description tells.

    state         as in the store; `done`, `failed` and `reused` of its `trials` as they stand
    workloads, mechanisms   their names, each once
    seeds         how many
    verdict       what its last report says, from `verdict`; empty: there is none yet
    over          whether it has ended, so that the verdict is its last word
    """

    sweep: str
    kind: str
    state: str
    description: str | None
    workloads: Sequence[str]
    mechanisms: Sequence[str]
    seeds: int
    trials: int
    done: int
    failed: int
    reused: int
    spec: str
    verdict: str
    over: bool


def run_note(note: SweepNote) -> str:
    """The description of a sweep's run. MLflow folds all but its first lines: what was found comes first."""
    parts = [_plain(note.description)] if note.description else []
    if not note.over:
        parts.append(_progress(note))
    if note.verdict:
        parts += [note.verdict] if note.over else ["As of the last report:", note.verdict]
    elif note.over:
        parts.append(_progress(note))
    text = "\n\n".join([*parts, _what(note), _where(note)])
    spec = _fenced(note.spec)
    return f"{text}\n\n{spec}" if len(text) + len(spec) + 2 <= NOTE_LENGTH else text


def experiment_note(name: str, description: str | None) -> str:
    """The description of the experiment that sweeps called `name` are in."""
    first = f"{_plain(description)}\n\n" if description else ""
    return (
        f"{first}Sweeps called {_plain(name)}, run by slotsweep. Each sweep is a run, with what it found as its "
        "description and its report and figures as artifacts; its trials are the runs nested under it. The views at "
        "the top right show a sweep's trials by mechanism, with the machines that computed them, and its best trials."
    )


def verdict(report: ReportInput) -> str:
    """What a sweep says: words with intervals, and the cells that are best at some size, in Markdown.

    At most `VERDICT_LENGTH` characters: parts that do not fit are left out, and the report is referred to.
    """
    kept, length = [], 0
    parts = list(_parts(report))
    for part in parts:
        if length + len(part) + 2 <= VERDICT_LENGTH:
            kept.append(part)
            length += len(part) + 2
    if len(kept) < len(parts):
        kept.append("There is more in the report.")
    return "\n\n".join(kept)


def _parts(report: ReportInput) -> Iterator[str]:
    """The parts of a verdict, those to drop last first."""
    yield _plain(overview(report))
    panels = [panel for panel in report.summary.panels if recalls_of(panel)]
    for panel in panels:
        title = f"**{_plain(panel.title)}**: " if len(panels) > 1 else ""
        yield f"{title}{_plain(findings(panel))}"
    for panel in panels:
        yield _leaders(panel, titled=len(panels) > 1)
    yield from map(_section, report.summary.sections)
    for warning in report.summary.warnings:
        yield f"Warning: {_plain(warning)}"


def _section(section: Section) -> str:
    parts = [f"**{_plain(section.title)}**", *map(_plain, section.text)]
    if section.table is not None and section.table.rows:
        parts.append(_grid(section.table))
    return "\n\n".join(parts)


def _grid(grid: Grid) -> str:
    table = markdown_table(grid.columns, printed_rows(grid)[:MOST_ROWS])
    more = len(grid.rows) - MOST_ROWS
    return f"{table}\n\n{plural(more, 'more row')} in the report." if more > 0 else table


def _leaders(panel: Panel, *, titled: bool) -> str:
    """The cells of all mechanisms together that no other beats: none has at least their recall at no larger size."""
    metric = recalls_of(panel)[0]
    axis = "bytes" if "bytes" in panel.axes else panel.axes[0]  # in bytes mechanisms are comparable
    rules = [curve for curve in panel.curves if curve.role != "bound"]
    found = [(curve, entry) for curve in rules for entry in measured(curve, axis, metric)]
    kept = on_frontier([entry.size.mean for _, entry in found], [entry.recall.mean for _, entry in found])
    leaders = [pair for pair, keep in zip(found, kept, strict=True) if keep]
    leaders.sort(key=lambda pair: (pair[1].size.mean, -pair[1].recall.mean))
    names = (metric, *panel.axes)
    rows = []
    for curve, entry in leaders[:MOST_ROWS]:
        numbers = [metric_of(entry.point, name) for name in names]
        written = [
            MISSING if one is None else estimate(one, writer(name)) for name, one in zip(names, numbers, strict=True)
        ]
        rows.append([curve.label, settings(entry.point.settings), *written, str(entry.point.done)])
    where = f" of {_plain(panel.title)}" if titled else ""
    more = f", the first {MOST_ROWS} of {len(leaders)}" if len(leaders) > MOST_ROWS else ""
    head = f"Frontier{where} over {axis}: the best {_plain(metric)} at or under each size{more}."
    return f"{head}\n\n{markdown_table(('mechanism', 'settings', *names, 'n'), rows)}"


def _progress(note: SweepNote) -> str:
    text = f"**{note.state}**: {note.done:,} of {plural(note.trials, 'trial')} done"
    if note.failed:
        text += f", {note.failed:,} failed"
    if note.reused:
        text += f"; {note.reused:,} were reused from earlier sweeps"
    return f"{text}."


def _what(note: SweepNote) -> str:
    return (
        f"A {_plain(note.kind)} sweep of {plural(note.trials, 'trial')}: {_named(note.mechanisms)} on "
        f"{_named(note.workloads)}, {plural(note.seeds, 'seed')}."
    )


def _named(names: Sequence[str]) -> str:
    return _plain(listing(list(names), MOST_NAMED))


def _where(note: SweepNote) -> str:
    report = "- the report, with all figures and tables: artifact `report/report.html`\n" if note.verdict else ""
    return (
        f"{report}- its trials: `tags.slotsweep.sweep = '{note.sweep}'`, the best of them with "
        "`AND tags.slotsweep.best = 'true'`, those of one kind of device with `AND tags.hw.device = 'cpu'`, "
        "without those that a retry replaced with `AND tags.slotsweep.replaced = 'false'`\n"
        f"- at a terminal: `slotsweep results {note.sweep}`"
    )


def _plain(text: str | None) -> str:
    """`text` without meaning as Markdown."""
    return markdown_text(text or "")


def _fenced(text: str) -> str:
    """`text` as a block of code, whatever it holds."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}yaml\n{text.rstrip()}\n{fence}"
