"""From rows of results to what a frontier says: points with intervals, curves with hypervolume and area, warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from models.config import round_number
from models.roles import bounds_of, role_of
from models.stream import Floats
from tasks.bootstrap import CurveSample, paired_bootstrap
from tasks.cells import Cell, CurveName, Row, group_cells, name_curves, panels
from tasks.seeds import generator
from tasks.sequential import SeedsUntil, metric_interval
from tasks.staircase import area_under_curve, hypervolume_under, on_frontier
from tasks.statistics import column_means, mean_intervals
from tasks.summary import SIZE_AXES, Curve, Interval, Panel, Point, Summary

METRICS = "metrics."
RECALL = "recall"
SHARES = (RECALL, "recall_all", "recall_credited", "abstained")

NEEDED = (RECALL, "chance", "tokens", *SIZE_AXES, *(f"{axis}_peak" for axis in SIZE_AXES))
"""Metrics that a summary reads; one that no trial reports counts as missing everywhere."""

WHOLE_STREAM = ("full_attention", "knn")
"""Mechanisms that hold every token: their size is that of the stream."""

MACHINE = {"hw.cpu_model": "CPU models", "hw.gpu": "GPUs", "hw.threads": "thread counts"}
"""Columns that must not mix where times are compared."""

WEAKENED = "their cells rest on fewer seeds, or on none"


def summarise(rows: Sequence[Row], until: SeedsUntil | None = None) -> Summary:
    """The frontier of every mechanism on every workload, from one row a trial.

    rows: dotted columns `state`, `reason`, `seed`, `episodes`, `workload.*`, `mechanism.*`, `metrics.*`, `hw.*`, of
    which metrics may be missing or None. The size of a point is the mean of what was measured, never its budget.
    until: the rule that added seeds, which then tells the intervals of its metric
    """
    cells = group_cells(rows)
    curve_of = {id(cell): name for cell, name in zip(cells, name_curves(cells), strict=True)}
    metrics = _metrics(rows)
    summary = []
    for title, members in panels(cells):
        seeds = sorted({seed for cell in members for seed, row in cell.rows.items() if row.get("state") == "done"})
        by_curve: dict[CurveName, list[Cell]] = {}
        for cell in members:
            by_curve.setdefault(curve_of[id(cell)], []).append(cell)
        curves = [_measure(name, curve, seeds, metrics) for name, curve in by_curve.items()]
        summary.append(_panel(title, curves, until))
    return Summary(tuple(summary), tuple(warnings(rows, cells)))


def _metrics(rows: Iterable[Row]) -> list[str]:
    """Names of the metrics of finished trials, in order of appearance. A text that says why one is None is not one."""
    layouts = dict.fromkeys(tuple(row) for row in rows if row.get("state") == "done")
    columns = dict.fromkeys(column for layout in layouts for column in layout)
    names = [column.removeprefix(METRICS) for column in columns if column.startswith(METRICS)]
    return [name for name in names if not name.endswith("_reason")]


@dataclass(frozen=True)
class _Measured:
    """One curve: its cells by rising size, and the values [S, P] of each metric, NaN where there is none."""

    name: CurveName
    cells: list[Cell]
    values: dict[str, Floats]

    def means(self, metric: str) -> Floats:
        """Means [P] over seeds, NaN where there is none."""
        return column_means(self.values[metric])[1]


def _measure(name: CurveName, cells: Sequence[Cell], seeds: Sequence[int], metrics: Sequence[str]) -> _Measured:
    place = {seed: index for index, seed in enumerate(seeds)}
    names = list(dict.fromkeys([*metrics, *NEEDED]))
    columns = [METRICS + name for name in names]
    table = np.full((len(names), len(seeds), len(cells)), np.nan)
    for point, cell in enumerate(cells):
        for seed, row in cell.rows.items():
            if row.get("state") == "done":
                table[:, place[seed], point] = np.array([row.get(column) for column in columns], dtype=np.float64)
    table[~np.isfinite(table)] = np.nan
    unsorted = _Measured(name, list(cells), dict(zip(names, table, strict=True)))
    order = np.lexsort([unsorted.means(axis) for axis in reversed(SIZE_AXES)])
    return _Measured(name, [cells[index] for index in order], dict(zip(names, table[:, :, order], strict=True)))


def _panel(title: str, curves: Sequence[_Measured], until: SeedsUntil | None) -> Panel:
    reference: dict[str, float] = {}
    size_range: dict[str, tuple[float, float]] = {}
    hypervolume: dict[str, list[Interval | None]] = {axis: [None] * len(curves) for axis in SIZE_AXES}
    area: dict[str, list[Interval | None]] = {axis: [None] * len(curves) for axis in SIZE_AXES}
    for axis in SIZE_AXES:
        sizes = _sizes(curves, axis)
        if not len(sizes):
            continue
        reference[axis] = _whole_stream(curves, axis)
        size_range[axis] = low, high = round_number(sizes.min()), round_number(sizes.max())
        hypervolume[axis] = _resampled(curves, axis, partial(hypervolume_under, reference=reference[axis]))
        if low < high:
            area[axis] = _resampled(curves, axis, partial(area_under_curve, low=low, high=high))
    return Panel(
        workload=curves[0].cells[0].workload,
        title=title,
        chance=_chance(curves),
        curves=tuple(
            Curve(
                mechanism=curve.name.mechanism,
                label=curve.name.label,
                points=_points(curve, until),
                hypervolume={axis: hypervolume[axis][index] for axis in SIZE_AXES},
                area={axis: area[axis][index] for axis in SIZE_AXES},
                role=role_of(curve.name.mechanism),
                bounds=bounds_of(curve.name.mechanism),
            )
            for index, curve in enumerate(curves)
        ),
        reference=reference,
        size_range=size_range,
    )


def _sizes(curves: Iterable[_Measured], metric: str) -> Floats:
    """Means of `metric` at all points of all curves, where above 0: an empty memory has no place on a log axis."""
    means = np.concatenate([np.empty(0), *(curve.means(metric) for curve in curves)])
    return means[means > 0]


def _whole_stream(curves: Sequence[_Measured], axis: str) -> float:
    """The size of holding every token: their number, the bytes of a memory that does; else the largest measured."""
    holders = [curve for curve in curves if curve.name.mechanism in WHOLE_STREAM]
    whole = _sizes(curves, "tokens") if axis == "slots" else _sizes(holders, axis)
    if not len(whole):
        whole = np.concatenate([_sizes(curves, axis), _sizes(curves, f"{axis}_peak")])
    return float(whole.max())


def _resampled(
    curves: Sequence[_Measured], axis: str, statistic: Callable[[Floats, Floats], Floats]
) -> list[Interval | None]:
    """`statistic` of each curve with its interval; None for a curve without any finished point."""
    samples = [CurveSample(curve.values[axis], curve.values[RECALL]) for curve in curves]
    results = paired_bootstrap(samples, statistic, generator(0, "bootstrap"))
    return [result.interval(bounds=(0.0, 1.0)) if result.seeds else None for result in results]


def _chance(curves: Iterable[_Measured]) -> float | None:
    """Mean chance over all trials of a workload."""
    values = np.concatenate([curve.values["chance"].ravel() for curve in curves])
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _points(curve: _Measured, until: SeedsUntil | None) -> tuple[Point, ...]:
    intervals = _intervals(curve, until)
    frontier = {axis: on_frontier(curve.means(axis).tolist(), curve.means(RECALL).tolist()) for axis in SIZE_AXES}
    return tuple(
        Point(
            settings={key: cell.mechanism.get(key) for key in curve.name.settings},
            metrics={metric: interval for metric in intervals if (interval := intervals[metric][index]) is not None},
            on_frontier={axis: frontier[axis][index] for axis in SIZE_AXES},
            seeds=len(cell.rows),
            done=sum(row.get("state") == "done" for row in cell.rows.values()),
            failed=sum(row.get("state") == "failed" for row in cell.rows.values()),
        )
        for index, cell in enumerate(curve.cells)
    )


def _intervals(curve: _Measured, until: SeedsUntil | None) -> dict[str, list[Interval | None]]:
    """Intervals of each metric at each point. A share is the mean of a seed's episodes, and episodes are independent.

    A single episode is a recording with many queries; how many outcomes a share then rests on is not in a row.
    """
    episodes = {row.get("episodes") for cell in curve.cells for row in cell.rows.values()}
    least = min((count for count in episodes if count), default=1)
    outcomes = least if least > 1 else None
    shares = partial(mean_intervals, bounds=(0.0, 1.0), outcomes=outcomes)
    points = len(curve.cells)
    intervals = {}
    for metrics, method in (
        ([metric for metric in curve.values if metric in SHARES], shares),
        ([metric for metric in curve.values if metric not in SHARES], mean_intervals),
    ):
        together = method(np.hstack([curve.values[metric] for metric in metrics]))
        intervals.update({metric: together[i * points : (i + 1) * points] for i, metric in enumerate(metrics)})
    if until is not None and until.metric in curve.values:
        told = partial(metric_interval, until, until.metric)
        if until.metric in SHARES:
            told = partial(told, bounds=(0.0, 1.0), outcomes=outcomes)
        columns = [column[~np.isnan(column)] for column in curve.values[until.metric].T]
        intervals[until.metric] = [told(column) if len(column) else None for column in columns]
    return intervals


def warnings(rows: Sequence[Row], cells: Sequence[Cell]) -> Iterator[str]:
    """What a reader must know before believing the numbers."""
    if not rows:
        yield "there are no trials"
        return
    trials = [row for cell in cells for row in cell.rows.values()]
    if len(trials) < len(rows):
        yield f"{len(rows) - len(trials)} rows repeat a cell and a seed; the last of each is used"
    failures = Counter(str(row.get("reason") or "no reason given") for row in trials if row.get("state") == "failed")
    if failures:
        reasons = ", ".join(f"{reason} {count}" for reason, count in failures.most_common())
        yield f"{failures.total()} of {len(trials)} trials failed ({reasons}); {WEAKENED}"
    unfinished = sum(row.get("state") not in ("done", "failed") for row in trials)
    if unfinished:
        yield f"{unfinished} of {len(trials)} trials have no result (yet); {WEAKENED}"
    if max(len(cell.rows) for cell in cells) == 1:
        yield "one seed: intervals are undefined, and differences between mechanisms may be chance"
    for column, noun in MACHINE.items():
        values = sorted(
            {str(row[column]) for row in trials if row.get("state") == "done" and row.get(column) is not None}
        )
        if len(values) > 1:
            yield f"mixed hardware: {len(values)} {noun} ({', '.join(values)}); times are not comparable between them"
