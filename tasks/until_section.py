"""What a report says of seeds that were added until an interval was narrow: the rule, and how far it got."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tasks.cells import Row
from tasks.frontier import SHARES
from tasks.labels import NamedCell, named_cells
from tasks.sequential import SeedsUntil
from tasks.statistics import deviation
from tasks.summary import Grid, Section, Value


def until_section(rows: Sequence[Row], until: SeedsUntil) -> Section:
    """The rule that added seeds, how many each cell has, and which of them it did not make narrow enough."""
    cells = named_cells(rows, until)
    lines = [_line(cell, until) for cell in cells]
    grid = Grid(
        ("mechanism", "workload", until.metric, "sd of the first stage", "seeds", "narrow enough"), tuple(lines)
    )
    return Section("until", f"Seeds until {until.metric} is known", tuple(_words(cells, lines, until)), grid)


def _line(cell: NamedCell, until: SeedsUntil) -> tuple[Value, ...]:
    values = np.array(list(cell.values(until.metric).values()), dtype=np.float64)
    if not until.covers(until.metric, len(values)):
        return cell.label, cell.workload, cell.mean(until.metric), None, len(values), "first stage not finished"
    least = min((int(row["episodes"]) for row in cell.done.values()), default=1)
    outcomes = least if least > 1 and until.metric in SHARES else None
    reached = until.rule.reaches(values, outcomes)
    interval = (
        until.rule.interval(values, bounds=(0.0, 1.0), outcomes=outcomes) if outcomes else cell.mean(until.metric)
    )
    spread = deviation(values[: until.rule.stage])
    return cell.label, cell.workload, interval, spread, len(values), "yes" if reached else "no"


def _words(cells: Sequence[NamedCell], lines: Sequence[tuple[Value, ...]], until: SeedsUntil) -> Iterator[str]:
    rule = until.rule
    counts = sorted({len(cell.values(until.metric)) for cell in cells}) or [0]
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    yield (
        f"Seeds were added to every cell until the mean of {until.metric} is known within ± {rule.half_width:g} with "
        f"95% confidence, at most {rule.most}: the deviation of the first {rule.stage} tells how many there must be; "
        "the interval over all of them is made with it, so that it covers although their number depends on them (Stein "
        f"1945). Cells have {seeds} seeds."
    )
    wide = [str(line[0]) for line in lines if line[-1] == "no"]
    if wide:
        named = ", ".join(wide[:5]) + (f" and {len(wide) - 5} more" if len(wide) > 5 else "")
        yield f"Not known so well: {named}."
    elif lines and all(line[-1] == "yes" for line in lines):
        yield "All cells are known so well."
