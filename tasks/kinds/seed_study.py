"""Seed studies: how far a result depends on the seed, and which differences between mechanisms outlast it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from models.config import canonical_json
from tasks.aggregates import interquartile_interval
from tasks.bootstrap import bca_interval
from tasks.cells import Row
from tasks.comparisons import compare_all, every_pair
from tasks.difference_table import difference_table, power_sentence, superior
from tasks.growth_sections import growth_sections
from tasks.kind import NOTHING_ASKED, Asked, Kind, KindConfig, kind
from tasks.labels import SHARE, NamedCell, by_workload
from tasks.seeds import generator
from tasks.sequential import metric_interval
from tasks.statistics import deviation
from tasks.summary import Grid, Section, Summary, Value

MARGIN = 0.01
"""Recalls that differ by less are called equal, where an equivalence test shows it."""


class SeedStudyConfig(KindConfig):
    """A few settings over many seeds: means, spread, and differences paired by seed with tests and effect sizes."""

    name: Literal["seed_study"] = "seed_study"


@kind(SeedStudyConfig)
class SeedStudy(Kind):
    """Every mechanism reads the same streams with the same seeds, so that differences are paired."""

    starter = """\
name: my-seeds             # names the sweep, here and in MLflow
kind: seed_study           # means and spread over seeds, and differences between mechanisms paired by seed

# What makes the streams. `slotsweep list workloads` shows all workloads and their fields.
workload: {name: associative_recall, items: 64, repeats: 4, classes: 16, dim: 32, noise: 0.3}

# All see the same streams, seed by seed. Up to 8 are all compared with each other, more with the first.
mechanisms:
  - {name: dp_cache, similarity: 0.6}
  - {name: item_lru, budget: 64}
  - {name: h2o, budget: 64}
  - {name: recency, budget: 64}

seeds: 20                  # the more seeds, the narrower the intervals
episodes: 100              # streams a trial averages over
"""

    @classmethod
    def summarise(cls, rows: Sequence[Row], asked: Asked = NOTHING_ASKED) -> Summary:
        from tasks.frontier import summarise

        groups = by_workload(rows, asked.until)
        sections: list[Section] = []
        for group in groups:
            sections += [_seeds(*group), *_differences(*group)]
        cells = [cell for _, _, members in groups for cell in members]
        sections += [*_over_workloads(cells), *growth_sections(cells)]
        return replace(summarise(rows, asked.until), sections=tuple(sections))


def _seeds(number: int, title: str, cells: Sequence[NamedCell]) -> Section:
    """How the recall of each cell is distributed over seeds."""
    text = (
        "Mean recall over seeds with its 95% interval, by Student's t and by a bootstrap that allows for skew; sd, "
        "least, median and most are those of single seeds. No bootstrap where recall decided how many seeds there are."
    )
    columns = ("mechanism", "recall", "recall, bootstrap", "sd", "least", "median", "most", "slots", "n")
    return Section(f"seeds-{number}", f"Seeds: {title}", (text,), Grid(columns, tuple(map(_distribution, cells))))


def _distribution(cell: NamedCell) -> tuple[Value, ...]:
    values = np.array(list(cell.values("recall").values()))
    if not len(values):
        return cell.label, None, None, None, None, None, None, None, 0
    sd = deviation(values) if len(values) > 1 else None
    ends = float(values.min()), float(np.median(values)), float(values.max())
    # A share is the mean of a trial's episodes, which are independent; a single one is a recording with many queries.
    least = min(int(row["episodes"]) for row in cell.done.values())
    outcomes = least if least > 1 else None
    mean = metric_interval(cell.until, "recall", values, bounds=SHARE, outcomes=outcomes)
    if cell.until is not None and cell.until.covers("recall", len(values)):
        return cell.label, mean, None, sd, *ends, cell.mean("slots"), len(values)
    resampled = bca_interval(values, generator(0, "bootstrap"), bounds=SHARE, outcomes=outcomes)
    return cell.label, mean, resampled, sd, *ends, cell.mean("slots"), len(values)


def _differences(number: int, title: str, cells: Sequence[NamedCell]) -> Iterator[Section]:
    """Every cell with every one before it, or, where that would be very many, with the first."""
    samples = {cell.label: cell.values("recall") for cell in cells}
    pairs = every_pair(list(samples))
    if not any(samples.values()) or not pairs:
        return
    least = min(int(row["episodes"]) for cell in cells for row in cell.done.values())
    compared = compare_all(samples, pairs, MARGIN, least if least > 1 else None)
    text = (
        "Recall of the first mechanism of a row less that of the second, paired by seed. Effect: the difference in "
        f"standard deviations of the differences of single seeds (Hedges' g). {superior('maximize')} Intervals hold "
        "for each row by itself.",
        f"p-values are adjusted for the {len(compared)} comparisons: of no difference (paired t-test) by Holm's method "
        f"and by Benjamini and Hochberg's, of a difference of {MARGIN:g} or more (two one-sided t-tests) by Holm's. "
        "Verdicts go by Holm's, at 5%: two recalls differ, or are equal to within that margin, or both, or these seeds "
        "cannot tell. Where no seed differs, interval and test of equality are exact binomial ones over the episodes.",
        *power_sentence(compared),
    )
    yield Section(f"differences-{number}", f"Differences: {title}", text, difference_table(compared, pairs))


def _over_workloads(cells: Sequence[NamedCell]) -> Iterator[Section]:
    """The mechanisms that were run on every workload, over all of them."""
    workloads = list(dict.fromkeys(cell.workload for cell in cells))
    if len(workloads) < 2:
        return
    by_mechanism: dict[str, list[NamedCell]] = {}
    for cell in cells:
        by_mechanism.setdefault(canonical_json(cell.cell.mechanism), []).append(cell)
    rows = tuple(_aggregate(group) for group in by_mechanism.values() if len(group) == len(workloads))
    text = (
        "Interquartile mean of recall over workloads and seeds: the middle half of all values, which neither easy nor "
        "hopeless workloads decide. Seeds that every workload has count, and are resampled whole."
    )
    yield Section(
        "all-workloads", f"Over {len(workloads)} workloads", (text,), Grid(("mechanism", "recall", "workloads"), rows)
    )


def _aggregate(cells: Sequence[NamedCell]) -> tuple[Value, ...]:
    samples = [cell.values("recall") for cell in cells]
    seeds = sorted(set.intersection(*(set(sample) for sample in samples)))
    values = np.array([[sample[seed] for sample in samples] for seed in seeds])
    found = interquartile_interval(values, generator(0, "bootstrap"), bounds=SHARE) if seeds else None
    return cells[0].label, found, len(cells)
