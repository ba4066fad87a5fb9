"""How memories and their streams' items grow with the length of streams in which new items keep coming, ever rarer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from models.config import canonical_json
from models.stream import Floats
from tasks.cells import Fields, workload_titles
from tasks.growth import LogGrowth, fit_log_growth, log_slopes
from tasks.labels import NamedCell, legible
from tasks.scaling import LEAST_SIZES
from tasks.seeds import generator
from tasks.statistics import mean_intervals
from tasks.summary import Chart, Grid, Line, Section, Value

PROCESS = "chinese_restaurant"
LENGTHS = ("events", "checkpoints")
"""Fields of the workload that say where growth is looked at."""

ITEMS = "distinct items"


@dataclass(frozen=True)
class Counts:
    """What was counted at several numbers of tokens [N], in each run (seed) [R, N]."""

    label: str
    tokens: Floats
    counts: Floats


def growth_sections(cells: Sequence[NamedCell]) -> Iterator[Section]:
    """For each Chinese restaurant process with enough lengths, the slots of every memory against ln N."""
    processes: dict[str, list[NamedCell]] = {}
    for cell in cells:
        if cell.cell.workload["name"] == PROCESS and cell.done:
            processes.setdefault(canonical_json(_without_lengths(cell.cell.workload)), []).append(cell)
    titles = workload_titles([_without_lengths(same[0].cell.workload) for same in processes.values()])
    for number, (title, same) in enumerate(zip(titles, processes.values(), strict=True), start=1):
        if counted := _counted(same):
            yield _section(f"growth-{number}", title, float(same[0].cell.workload["alpha"]), counted)


def _without_lengths(workload: Fields) -> Fields:
    return {name: value for name, value in workload.items() if name not in LENGTHS}


def _counted(cells: Sequence[NamedCell]) -> list[Counts]:
    """Items, which are the same for all memories, then the slots of each."""
    memories: dict[str, list[NamedCell]] = {}
    for cell in cells:
        memories.setdefault(canonical_json(cell.cell.mechanism), []).append(cell)
    leaders = {id(same[0]): same for same in memories.values()}
    shown = [leaders[id(one)] for one in legible([same[0] for same in memories.values()])]
    found = [_counts(ITEMS, shown[0], "items"), *(_counts(same[0].label, same, "slots") for same in shown)]
    return [one for one in found if one is not None]


def _counts(label: str, cells: Sequence[NamedCell], name: str) -> Counts | None:
    """Of streams of several lengths, or where there are too few, at the checkpoints of the longest."""
    cells = sorted(cells, key=lambda cell: float(cell.cell.workload["events"]))
    lengths = np.array([float(cell.cell.workload["events"]) for cell in cells])
    if len(np.unique(lengths)) >= LEAST_SIZES:
        samples = [cell.values(name) for cell in cells]
        seeds = sorted(set.intersection(*(set(sample) for sample in samples)))
        counts = np.array([[sample[seed] for sample in samples] for seed in seeds])
        return Counts(label, lengths, counts) if seeds else None
    tokens, series = cells[-1].series("phase_tokens"), cells[-1].series(f"phase_{name}")
    if tokens is None or series is None or tokens.shape[1] < LEAST_SIZES:
        return None
    return Counts(label, tokens[0], series)


def _section(name: str, title: str, alpha: float, counted: Sequence[Counts]) -> Section:
    columns = ("counted", "slope", "expected", "α", "tokens", "runs")
    text = (
        "Counts = offset + slope · ln N, N tokens, by least squares; a run is a seed; its counts depend on each other, "
        "so intervals are by a bootstrap of whole runs (BCa). Expected: the slope, over the same N, of the process "
        "itself, which has α (ψ(α + N) - ψ(α)) items on average (Antoniak 1974): nearly α where N is above 100 α.",
    )
    lines = [
        *(line for one in counted for line in _lines(one)),
        Line("expected items", *_expected_line(alpha, counted[0].tokens)),
    ]
    chart = Chart("tokens", "slots, or items", tuple(lines), log_x=True)
    rows = tuple(_row(one, alpha) for one in counted)
    return Section(name, f"Growth: {title}", text, Grid(columns, rows), (chart,))


def _row(one: Counts, alpha: float) -> tuple[Value, ...]:
    tokens = f"{one.tokens.min():,.0f} to {one.tokens.max():,.0f}"
    slope = _fitted(one).slope
    return (
        one.label,
        slope,
        float(log_slopes(one.tokens, expected_items(alpha, one.tokens))),
        alpha,
        tokens,
        len(one.counts),
    )


def _fitted(one: Counts) -> LogGrowth:
    return fit_log_growth(one.tokens, one.counts, generator(0, "bootstrap"))


def expected_items(alpha: float, tokens: Floats) -> Floats:
    """Expected items among so many tokens [N] of a Chinese restaurant process: the sum of α / (α + i) over them."""
    from scipy.special import digamma

    expected: Floats = alpha * (digamma(alpha + tokens) - digamma(alpha))
    return expected


def _expected_line(alpha: float, tokens: Floats) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(tokens.tolist()), tuple(expected_items(alpha, tokens).tolist())


def _lines(one: Counts) -> Iterator[Line]:
    means = [mean for mean in mean_intervals(one.counts, bounds=(0.0, np.inf)) if mean is not None]
    if len(means) == len(one.tokens):
        law = _fitted(one)
        yield Line(
            one.label,
            tuple(one.tokens.tolist()),
            tuple(mean.mean for mean in means),
            tuple(mean.low for mean in means),
            tuple(mean.high for mean in means),
            fit=tuple(law.predict(size)[0] for size in one.tokens.tolist()),
        )
