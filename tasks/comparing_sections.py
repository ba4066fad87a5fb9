"""A comparison as sections of a report, as rows, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tasks.comparing import CellComparison, Comparison, MetricDifference
from tasks.summary import Grid, Interval, Section, Value

HEADLINE = ("recall", "recall_all", "slots")
"""Of these metrics the first that cells have is shown with its difference."""

BATCH_COSTS = ("memory", "device memory", "energy")
"""Ratios of what is measured of trials computed together, not of one."""


def comparison_sections(comparison: Comparison, number: int = 1) -> tuple[Section, ...]:
    """What to show of a comparison, the `number`th of a page: its cells, and what else differs."""
    suffix = "" if number == 1 else f"-{number}"
    title = f"{comparison.b} beside {comparison.a}"
    if not comparison.cells:
        return (Section(f"compare{suffix}", title, _left_out(comparison)),)
    cells = Section(f"compare{suffix}", title, _sentences(comparison), _cells(comparison))
    if not comparison.flags:
        return (cells,)
    rows = tuple((flag.group, flag.name, flag.a, flag.b) for flag in comparison.flags)
    table = Grid(("kind", "what", comparison.a, comparison.b), rows)
    text = ("Each of these may stand behind a difference above.",)
    return cells, Section(f"compare-flags{suffix}", f"What else differs: {title}", text, table)


def _sentences(comparison: Comparison) -> tuple[str, ...]:
    cells = comparison.cells
    paired = [cell for cell in cells if cell.seeds]
    beyond = [cell for cell in paired if cell.exceeding]
    text = [
        f"{len(paired) - len(beyond)} of {len(paired)} cells agree to within the tolerance of {comparison.tolerance:g} "
        "(absolute for means up to 1, relative above); differences are of means over the seeds that both have."
        if paired
        else "No seed is common to both, so results are not compared; speed and memory are, by medians."
    ]
    speeds = [cell.ratios["speed"].mean for cell in cells if "speed" in cell.ratios]
    if speeds:
        text.append(
            f"A trial is {np.median(speeds):.3g} times as fast on {comparison.b} as on {comparison.a} (median of "
            f"{len(speeds)} cells; {min(speeds):.3g} to {max(speeds):.3g}). Memory, energy and cost above 1: "
            f"{comparison.b} takes more."
        )
    if same := sum(cell.one_record for cell in cells):
        text.append(
            f"{same} of {sum(cell.seeds for cell in cells)} trials are one record on both sides, computed once: they "
            "say nothing of speed, memory or cost, and are left out of ratios"
            + (" (none is left)" if not speeds else "")
            + ". Run one side with --no-cache."
        )
    if any(name in cell.ratios for cell in cells for name in BATCH_COSTS):
        text.append(
            "Memory is the peak of all trials computed in one call, and energy the batch's, shared out by time: these "
            "compare the sides, and tell no mechanism of a batch from another."
        )
    return (*text, *_left_out(comparison))


def _left_out(comparison: Comparison) -> tuple[str, ...]:
    """What one side alone has finished, whose lack lets `--check` fail."""
    text = []
    if comparison.only_a or comparison.only_b:
        text.append(
            f"Left out: {comparison.only_a} cells that {comparison.a} alone has finished, {comparison.only_b} that "
            f"{comparison.b} alone has."
        )
    seeds = [sum(getattr(cell, side) for cell in comparison.cells) for side in ("only_a", "only_b")]
    if any(seeds):
        text.append(
            f"Left out of cells that both have: {seeds[0]} trials that {comparison.a} alone has finished, {seeds[1]} "
            f"that {comparison.b} alone has."
        )
    return tuple(text)


def _cells(comparison: Comparison) -> Grid:
    cells = comparison.cells
    metric = next((name for name in HEADLINE if any(_find(cell, name) for cell in cells)), None)
    ratios = dict.fromkeys(name for cell in cells for name in cell.ratios)
    columns: dict[str, list[Value]] = {}
    if len({cell.workload for cell in cells}) > 1:
        columns["workload"] = [cell.workload for cell in cells]
    columns["mechanism"] = [cell.label for cell in cells]
    columns["seeds"] = [cell.seeds for cell in cells]
    if metric is not None:
        found = [_find(cell, metric) for cell in cells]
        columns[f"{metric} difference"] = [None if one is None else one.difference for one in found]
    columns["within tolerance"] = [_verdict(cell) for cell in cells]
    for name in ratios:
        columns[f"{name} ratio"] = [cell.ratios.get(name) for cell in cells]
    if any(cell.costs for cell in cells):
        columns["cost ratio"] = [None if cell.costs is None else cell.costs[2] for cell in cells]
    return Grid(tuple(columns), tuple(zip(*columns.values(), strict=True)))


def _find(cell: CellComparison, metric: str) -> MetricDifference | None:
    return next((one for one in cell.metrics if one.metric == metric), None)


def _verdict(cell: CellComparison) -> str:
    """`yes`, or the metrics that differ by more than the tolerance, the most excessive first."""
    if not cell.metrics:
        return "not compared"
    beyond = sorted(cell.exceeding, key=lambda one: -abs(one.difference.mean) / one.allowed)
    shown = ", ".join(f"{one.metric} {one.difference.mean:+.3g}" for one in beyond[:3])
    more = f" and {len(beyond) - 3} more" if len(beyond) > 3 else ""
    return f"no: {shown}{more}" if beyond else "yes"


def comparison_rows(comparisons: Sequence[Comparison]) -> Iterator[dict[str, Any]]:
    """A flat row a cell and metric (a row without a metric where no seed is common)."""
    for comparison in comparisons:
        for cell in comparison.cells:
            shared: dict[str, Any] = {"a": comparison.a, "b": comparison.b, "tolerance": comparison.tolerance}
            shared |= {"workload": cell.workload, "mechanism": cell.label}
            shared |= {"seeds": cell.seeds, "only_a": cell.only_a, "only_b": cell.only_b}
            shared |= {"one_record": cell.one_record, "same_code": cell.same_code}
            costs = {f"{name} ratio": ratio for name, ratio in cell.ratios.items()}
            measured = {key: value for name, ratio in costs.items() for key, value in _flat(name, ratio).items()}
            if cell.costs is not None:
                measured |= dict(zip(("cost.a", "cost.b", "cost ratio"), cell.costs, strict=True))
            for metric in cell.metrics or (None,):
                yield shared | (_metric_row(metric) if metric is not None else {}) | measured


def _metric_row(metric: MetricDifference) -> dict[str, Any]:
    fields = {name: getattr(metric, name) for name in ("metric", "largest", "allowed", "exceeds", "equal")}
    return fields | {"mean.a": metric.a, "mean.b": metric.b} | _flat("difference", metric.difference)


def _flat(name: str, interval: Interval) -> dict[str, Any]:
    fields = asdict(interval)
    return {name: fields.pop("mean"), **{f"{name}.{field}": value for field, value in fields.items()}}


def comparison_record(comparison: Comparison) -> dict[str, Any]:
    """A comparison as a JSON tree."""
    return asdict(comparison) | {"agree": comparison.agree}
