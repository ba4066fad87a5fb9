"""From the rows of a sweep to what a claim measures: for each point one number a seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from statistics import fmean
from typing import Any

import numpy as np

from tasks.cells import Row, group_cells
from tasks.claims.claim import (
    Best,
    Curve,
    Difference,
    Dominance,
    Fields,
    Measure,
    Ratio,
    Scalar,
    Selection,
    Slope,
    Value,
)
from tasks.dominance import SizedCell, steps
from tasks.frontier import SHARES

Sample = dict[int, float]
"""Seed -> value."""


FOLDS: dict[str, Callable[[Sequence[float]], float]] = {"mean": fmean, "max": max, "min": min}


class LackingError(Exception):
    """Rows that do not have what a claim needs; the message says what is missing."""


@dataclass(frozen=True)
class Measured:
    """What was measured.

    samples   one a point
    outcomes  independent outcomes in 0..1 that every value is the mean of, where that is known; 1: values are 0 or 1
    chance    what guessing gives, where the values are recalls
    """

    samples: tuple[Sample, ...]
    outcomes: int | None = None
    chance: float | None = None


def take(measure: Measure, rows: Sequence[Row]) -> Measured:
    """What `measure` finds in `rows`, one a trial, with dotted columns. Raises LackingError."""
    match measure:
        case Value():
            return _value(measure, rows)
        case Curve():
            return _curve(measure, rows)
        case Best():
            return _best(measure, rows)
        case Slope():
            return Measured((_slopes(measure, rows),))
        case Dominance():
            return Measured(tuple(_differences(measure, rows)))
        case Difference(difference=(first, second)):
            return _paired(take(first, rows), take(second, rows), lambda a, b: a - b)
        case Ratio(ratio=(first, second)):
            return _paired(take(first, rows), take(second, rows), _quotient)


def rows_of(measure: Measure | Selection, rows: Sequence[Row]) -> list[Row]:
    """The rows that `take` reads numbers of; of the best at a size all that it is the best of."""
    match measure:
        case Curve():
            values = [Value(metric=measure.metric, **_at(measure, point)) for point in measure.points]
            return [row for value in values for row in _done(value, rows)]
        case Selection():
            return _done(measure, rows)
        case (
            Dominance(over=first, under=second) | Difference(difference=(first, second)) | Ratio(ratio=(first, second))
        ):
            return [row for side in (first, second) for row in rows_of(side, rows)]


def _value(measure: Value, rows: Sequence[Row]) -> Measured:
    if not measure.pooled:
        return _reached(measure, _of_cell(measure, _one_cell(measure, rows)))
    found = [_reached(measure, _of_cell(measure, cell)) for cell in _cells(measure, rows)]
    total = reduce(lambda one, other: _paired(one, other, add), found)
    return Measured(tuple({seed: value / len(found) for seed, value in sample.items()} for sample in total.samples))


def _reached(measure: Value, found: Measured) -> Measured:
    least = measure.reaches
    if least is None:
        return found
    samples = tuple({seed: float(value >= least) for seed, value in sample.items()} for sample in found.samples)
    return Measured(samples, outcomes=1)


def _of_cell(measure: Value, cell: Sequence[Row]) -> Measured:
    if not measure.metric.startswith("series."):
        sample = {row["seed"]: _number(row, measure.metric, measure.per) for row in cell}
        if measure.excess:
            return Measured(({row["seed"]: _excess(row, sample[row["seed"]]) for row in cell},), chance=0.0)
        known = _outcomes(cell, measure.metric, measure.per)
        return Measured((sample,), known, _chance(cell, measure.metric, measure.per))
    lists = {row["seed"]: _numbers(row, measure.metric) for row in cell}
    if measure.fold is not None:
        fold = FOLDS[measure.fold]
        return Measured(({seed: fold(numbers) for seed, numbers in lists.items()},))
    if len({len(numbers) for numbers in lists.values()}) > 1:
        raise LackingError(f"`{measure.metric}` is not equally long for all seeds")
    points = tuple({seed: numbers[i] for seed, numbers in lists.items()} for i in range(len(min(lists.values()))))
    return Measured(points if measure.at is None else (points[measure.at],))


def _curve(measure: Curve, rows: Sequence[Row]) -> Measured:
    points = [
        _value(Value(metric=measure.metric, per=measure.per, **_at(measure, point)), rows) for point in measure.points
    ]
    return Measured(tuple(point.samples[0] for point in points), points[0].outcomes, points[0].chance)


def _at(measure: Curve, point: Scalar) -> dict[str, Any]:
    """The selection of one point of a curve."""
    selection = measure.model_dump(include={"mechanism", "workload", "seeds"})
    if measure.along == "seed":
        return selection | {"seeds": (point,)}
    part, field = measure.along.split(".")
    return selection | {part: selection[part] | {field: point}}


def _best(measure: Best, rows: Sequence[Row]) -> Measured:
    cells = [cell for cell in _cells(measure, rows) if _mean(cell, measure.axis) <= measure.size + measure.slack]
    if not cells:
        raise LackingError(f"no cell of {_words(measure)} has at most {measure.size:g} {measure.axis}")
    best = max(cells, key=lambda cell: _mean(cell, measure.best))
    sample = {row["seed"]: _number(row, measure.best) for row in best}
    return Measured((sample,), _outcomes(best, measure.best), _chance(best, measure.best))


def _slopes(measure: Slope, rows: Sequence[Row]) -> Sample:
    by_seed: dict[int, list[tuple[float, float]]] = {}
    for row in _done(measure, rows):
        factor = 1.0 if measure.times is None else _number(row, measure.times)
        y = [factor * value for value in _numbers(row, measure.slope)]
        pairs = zip(_numbers(row, measure.against), y, strict=True)
        by_seed.setdefault(row["seed"], []).extend(pair for pair in pairs if pair[0] >= measure.least)
    return {seed: _slope(measure, pairs) for seed, pairs in by_seed.items()}


def _slope(measure: Slope, pairs: Sequence[tuple[float, float]]) -> float:
    if len({x for x, _ in pairs}) < 3:
        raise LackingError(f"a slope needs three sizes; {_words(measure)} has {len({x for x, _ in pairs})}")
    x, y = np.log([x for x, _ in pairs]), np.array([y for _, y in pairs])
    return float(np.polyfit(x, np.log(y) if measure.scale == "log_log" else y, 1)[0])


def _differences(measure: Dominance, rows: Sequence[Row]) -> list[Sample]:
    """Paired differences of the two frontiers, at every size in [low, high] at which one of them has a cell."""
    over, under = (
        [
            SizedCell(_mean(cell, "slots"), {row["seed"]: _number(row, "recall") for row in cell})
            for cell in _cells(side, rows)
        ]
        for side in (measure.over, measure.under)
    )
    try:
        found = steps(over, under, measure.low, measure.high)
    except ValueError as refused:
        raise LackingError(str(refused)) from refused
    return [_paired_sample(a, b, lambda x, y: x - y) for _, a, b in found]


def _paired(first: Measured, second: Measured, combine: Callable[[float, float], float]) -> Measured:
    if len(first.samples) != len(second.samples):
        raise LackingError(f"{len(first.samples)} points cannot be compared with {len(second.samples)}")
    pairs = zip(first.samples, second.samples, strict=True)
    return Measured(tuple(_paired_sample(a, b, combine) for a, b in pairs))


def _paired_sample(
    first: Mapping[int, float], second: Mapping[int, float], combine: Callable[[float, float], float]
) -> Sample:
    if first.keys() != second.keys():
        raise LackingError("the two sides were not measured with the same seeds")
    return {seed: combine(value, second[seed]) for seed, value in first.items()}


def _quotient(a: float, b: float) -> float:
    if b == 0.0:
        raise LackingError("a ratio to 0 is undefined")
    return a / b


def _one_cell(selection: Selection, rows: Sequence[Row]) -> list[Row]:
    cells = _cells(selection, rows)
    if len(cells) > 1:
        raise LackingError(f"{_words(selection)} are {len(cells)} cells, not one")
    return cells[0]


def _cells(selection: Selection, rows: Sequence[Row]) -> list[list[Row]]:
    return [list(cell.rows.values()) for cell in group_cells(_done(selection, rows))]


def _done(selection: Selection, rows: Sequence[Row]) -> list[Row]:
    """The selected rows, if there are any and all are finished."""
    wanted = [*_columns("mechanism", selection.mechanism), *_columns("workload", selection.workload)]
    selected = [row for row in rows if all(row.get(column) in values for column, values in wanted)]
    seeds = selection.seeds
    if seeds is not None:
        selected = [row for row in selected if row["seed"] in seeds]
    if not selected or (seeds is not None and len({row["seed"] for row in selected}) < len(seeds)):
        raise LackingError(f"the sweep has no trial of {_words(selection)}")
    unfinished = [row for row in selected if row.get("state") != "done"]
    if unfinished:
        why = sorted({str(row.get("reason") or row.get("state")) for row in unfinished})
        raise LackingError(
            f"{len(unfinished)} of {len(selected)} trials of {_words(selection)} have no result: {', '.join(why)}"
        )
    return selected


def _columns(part: str, fields: Fields) -> Iterable[tuple[str, tuple[Scalar, ...]]]:
    return ((f"{part}.{name}", value if isinstance(value, tuple) else (value,)) for name, value in fields.items())


def _number(row: Row, metric: str, per: str | None = None) -> float:
    value = row.get(f"metrics.{metric}")
    if value is None or not math.isfinite(value):
        raise LackingError(f"a trial of `{row.get('mechanism.name')}` has no metric `{metric}`")
    return float(value) if per is None else _quotient(float(value), _number(row, per))


def _numbers(row: Row, metric: str) -> list[float]:
    """A series, or a metric as a series of one."""
    if not metric.startswith("series."):
        return [_number(row, metric)]
    values = row.get(metric)
    if not values:
        raise LackingError(f"a trial of `{row.get('mechanism.name')}` has no `{metric}`")
    return [float(value) for value in values]


def _mean(cell: Sequence[Row], metric: str) -> float:
    return math.fsum(_number(row, metric) for row in cell) / len(cell)


def _outcomes(cell: Sequence[Row], metric: str, per: str | None = None) -> int | None:
    """Episodes behind a share, which are independent; the one episode of a recording has many queries."""
    episodes = min(int(row.get("episodes") or 1) for row in cell)
    return episodes if metric in SHARES and per is None and episodes > 1 else None


def _chance(cell: Sequence[Row], metric: str, per: str | None = None) -> float | None:
    return _mean(cell, "chance") if metric in SHARES and per is None else None


def _excess(row: Row, value: float) -> float:
    chance = _number(row, "chance")
    return _quotient(value - chance, 1.0 - chance)


def _words(selection: Selection) -> str:
    """A selection as a message shows it."""
    parts = [
        f"{part}.{name} {'|'.join(map(str, value)) if isinstance(value, tuple) else value}"
        for part, fields in (("mechanism", selection.mechanism), ("workload", selection.workload))
        for name, value in fields.items()
    ]
    if selection.seeds is not None:
        parts.append(f"seed {', '.join(map(str, selection.seeds))}")
    return ", ".join(parts) or "the sweep"
