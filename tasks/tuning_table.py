"""How the best of studies are written: their values on seeds that chose them and on seeds that did not, and bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tasks.aggregates import median_interval
from tasks.cells import Row
from tasks.frontier import SHARES
from tasks.labels import SHARE
from tasks.search import Bound, Goal
from tasks.statistics import Sample, mean_interval
from tasks.summary import Interval, Value
from tasks.tuning_results import BESIDE, Contest, Found

TO_COME = ("pending", "leased")
TUNING, HELD_OUT = "tuning seeds", "held-out seeds"


@dataclass(frozen=True)
class Table:
    """How the numbers of the best are written.

    episodes   independent outcomes behind a share of one seed, where known
    held_out   whether anything was measured on held-out seeds
    beside     metrics beside those that decided
    awaited    whether there are held-out seeds of which nothing of the best was measured
    so_far     whether proposals or trials are still to come
    """

    goal: Goal
    episodes: int | None
    held_out: bool
    beside: tuple[str, ...]
    awaited: bool
    so_far: bool

    @property
    def nothing_feasible(self) -> str:
        """What is said of a study whose proposals all break the bounds, or have no result."""
        return "no feasible proposal so far" if self.so_far else "no feasible proposal"

    @property
    def columns(self) -> list[str]:
        """Objectives and constraints on both kinds of seeds, then what stands beside them on the better kind."""
        last = HELD_OUT if self.held_out else TUNING
        both = [f"{metric}, {seeds}" for metric in self.goal.metrics for seeds in self._sides]
        bounds = [f"bounds on {last}"] if self.goal.constraints else []
        return [*both, *bounds, *(f"{metric}, {last}" for metric in self.beside)]

    @property
    def _sides(self) -> tuple[str, ...]:
        return (TUNING, HELD_OUT) if self.held_out else (TUNING,)

    def numbers(self, found: Sequence[Found]) -> list[Value]:
        """One row's values: means over seeds of one, medians over studies of several."""
        sides: dict[str, Callable[[Found], Mapping[str, Sample]]] = {
            TUNING: lambda one: one.tuning,
            HELD_OUT: lambda one: one.held_out,
        }
        last = sides[HELD_OUT if self.held_out else TUNING]
        values: list[Value] = [
            self._middle(metric, [sides[seeds](one).get(metric) for one in found])
            for metric in self.goal.metrics
            for seeds in self._sides
        ]
        if self.goal.constraints:
            values.append(_together([self.verdict(last(one)) for one in found]))
        return [*values, *(self._middle(metric, [last(one).get(metric) for one in found]) for metric in self.beside)]

    def _middle(self, metric: str, samples: Sequence[Sample | None]) -> Interval | None:
        measured = [sample for sample in samples if sample]
        if len(measured) < 2:
            return self.mean(metric, measured[0]) if measured else None
        return median_interval([fmean(sample.values()) for sample in measured], "studies")

    def mean(self, metric: str, sample: Sample) -> Interval:
        """The metric's mean over seeds with its interval."""
        values = [sample[seed] for seed in sorted(sample)]
        if metric in SHARES:
            return mean_interval(values, bounds=SHARE, outcomes=self.episodes)
        return mean_interval(values)

    def verdict(self, measured: Mapping[str, Sample]) -> str | None:
        """Whether bounds are kept: by whole intervals, or by means alone; None where something was not measured."""
        if not all(measured.get(metric) for metric in self.goal.constraints):
            return None
        means = [(self.mean(metric, measured[metric]), bound) for metric, bound in self.goal.constraints.items()]
        broken = [(mean, bound) for mean, bound in means if not _keeps(mean.mean, bound)]
        if broken:
            surely = any(mean.low is not None and not _reaches(mean, bound) for mean, bound in broken)
            return "broken" if surely else "broken on average"
        surely = all(_keeps(end, bound) for mean, bound in means for end in (mean.low, mean.high))
        return "kept" if surely else "kept on average"


def _keeps(value: float | None, bound: Bound) -> bool:
    """False for an end that an interval lacks."""
    return value is not None and all(beyond <= 0 for beyond in bound.violations(value).values())


def _reaches(interval: Interval, bound: Bound) -> bool:
    """Whether some of an interval keeps a bound that its mean breaks."""
    return _keeps(interval.low, bound) or _keeps(interval.high, bound)


def _together(verdicts: Sequence[str | None]) -> str | None:
    """One verdict as it is; of several, how often each was given."""
    counts = Counter(verdict for verdict in verdicts if verdict)
    if len(verdicts) < 2 or not counts:
        return next(iter(counts), None)
    return ", ".join(f"{verdict} {count}" for verdict, count in counts.most_common())


def table_of(contest: Contest, goal: Goal, rows: Sequence[Row], held_out_seeds: int) -> Table:
    """The table of a contest: what was measured of anything in it has a column. held_out_seeds: how many there are."""
    least = min((int(row["episodes"]) for row in rows if row.get("episodes")), default=1)
    found = contest.found
    held_out = any(one.held_out for one in found)
    measured = {metric for one in found for metric in (one.held_out if held_out else one.tuning)}
    beside = tuple(metric for metric in BESIDE if metric in measured and metric not in goal.metrics)
    awaited = held_out_seeds > 0 and not any(one.held_out for study in contest.studies for one in study.best)
    to_come = any(row.get("state") in TO_COME for row in rows)
    is_open = any(one.state == "open" for study in contest.studies for one in study.proposals)
    return Table(goal, least if least > 1 else None, held_out, beside, awaited, to_come or is_open)


def parameters_text(params: Mapping[str, Any]) -> str:
    """`tau 0.4, keep last`; a field of the workload says so."""
    return ", ".join(f"{short_name(name)} {_written(value)}" for name, value in params.items())


def short_name(parameter: str) -> str:
    """`tau` for `mechanism.tau`, `workload noise` for `workload.noise`."""
    return parameter.removeprefix("mechanism.").replace(".", " ", 1)


def _written(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
