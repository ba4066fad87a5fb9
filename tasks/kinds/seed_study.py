"""Seed studies: how far a result depends on the seed, and which differences between mechanisms outlast it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal

import numpy as np

from tasks.cells import Row
from tasks.kind import Kind, KindConfig, kind
from tasks.labels import SHARE, NamedCell, named_cells
from tasks.statistics import equivalence
from tasks.summary import Grid, Section, Summary, Value

MARGIN = 0.01
"""Recalls that differ by less are called equal, where an equivalence test shows it."""


class SeedStudyConfig(KindConfig):
    """A few settings over many seeds: means, spread, and differences paired by seed with a test of equality."""

    name: Literal["seed_study"] = "seed_study"


@kind(SeedStudyConfig)
class SeedStudy(Kind):
    """Every mechanism reads the same streams with the same seeds, so that differences are paired."""

    starter = """\
name: my-seeds             # names the sweep, here and in MLflow
kind: seed_study           # means and spread over seeds, and differences between mechanisms paired by seed

# What makes the streams. `slotsweep list workloads` shows all workloads and their fields.
workload: {name: associative_recall, items: 64, repeats: 4, classes: 16, dim: 32, noise: 0.3}

# The first mechanism is the one that the others are compared with. Each sees the same streams, seed by seed.
mechanisms:
  - {name: dp_cache, similarity: 0.6}
  - {name: item_lru, budget: 64}
  - {name: h2o, budget: 64}
  - {name: recency, budget: 64}

seeds: 20                  # the more seeds, the narrower the intervals
episodes: 100              # streams a trial averages over
"""

    @classmethod
    def summarise(cls, rows: Sequence[Row]) -> Summary:
        from tasks.frontier import summarise

        cells = named_cells(rows)
        sections = [
            section
            for number, (title, members) in enumerate(groupby(cells, key=lambda cell: cell.workload), start=1)
            for section in _sections(number, title, list(members))
        ]
        return replace(summarise(rows), sections=tuple(sections))


def _sections(number: int, title: str, cells: Sequence[NamedCell]) -> Iterator[Section]:
    spread = Grid(("mechanism", "recall", "sd", "least", "most", "slots", "n"), tuple(map(_spread, cells)))
    text = "Mean recall over seeds with its 95% interval; sd, least and most are those of single seeds."
    yield Section(f"seeds-{number}", f"Seeds: {title}", (text,), spread)
    if len(cells) > 1 and cells[0].values("recall"):
        first = cells[0]
        text = (
            f"Recall less that of {first.label}, paired by seed. Two recalls are equal where two one-sided t-tests at "
            f"5% show that they differ by less than {MARGIN}; they differ where the 95% interval of the difference "
            "leaves out 0; otherwise these seeds cannot tell."
        )
        table = Grid(
            ("mechanism", "difference", "p of inequality", "verdict"),
            tuple(_compared(cell, first) for cell in cells[1:]),
        )
        yield Section(f"differences-{number}", f"Differences: {title}", (text,), table)


def _spread(cell: NamedCell) -> tuple[Value, ...]:
    values = np.array(list(cell.values("recall").values()))
    if not len(values):
        return cell.label, None, None, None, None, None, 0
    sd = float(values.std(ddof=1)) if len(values) > 1 else None
    ends = float(values.min()), float(values.max())
    return cell.label, cell.mean("recall", SHARE), sd, *ends, cell.mean("slots"), len(values)


def _compared(cell: NamedCell, first: NamedCell) -> tuple[Value, ...]:
    ours, theirs = cell.values("recall"), first.values("recall")
    if not ours.keys() & theirs.keys():
        return cell.label, None, None, "no common seed"
    tested = equivalence(ours, theirs, MARGIN)
    low, high = tested.difference.low, tested.difference.high
    verdict = "undefined: one seed"
    if low is not None and high is not None:
        apart = low > 0 or high < 0
        verdict = "differ" if apart and not tested.equal else "undecided"
        if tested.equal:
            verdict = "equal" if not apart else f"differ by less than {MARGIN}"
    return cell.label, tested.difference, tested.p, verdict
