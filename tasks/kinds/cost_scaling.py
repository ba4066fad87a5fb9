"""Cost scaling: how the time to build and to read a memory grows with the stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from models.config import MechanismConfig, canonical_json
from models.stream import Floats
from tasks.cells import Row
from tasks.cost import measure
from tasks.frontier import warnings
from tasks.kind import Kind, KindConfig, kind
from tasks.labels import NamedCell, named_cells
from tasks.scaling import TooFewSizesError, fit_power_law
from tasks.statistics import mean_intervals
from tasks.summary import Chart, Grid, Line, Section, Summary, Value

if TYPE_CHECKING:
    from tasks.evaluate import Outcome
    from tasks.fitting import Fits
    from tasks.workload import Workload

US_PER_TOKEN, US_PER_QUERY = "_us_per_token", "read_us_per_query"

POSITIVE = (0.0, float("inf"))
"""What a time can be."""


class CostScalingConfig(KindConfig):
    """Seconds to build and to read each memory against the length of the stream, measured alone, with exponents."""

    name: Literal["cost_scaling"] = "cost_scaling"


@kind(CostScalingConfig)
class CostScaling(Kind):
    """An axis of the workload sets the length of its streams; a cell's seeds are independent measurements.

    Trials run one after another on a machine that computes nothing else for this sweep.
    """

    evaluator: ClassVar[str] = "tasks.cost"
    measures_time: ClassVar[bool] = True

    starter = """\
name: my-costs             # names the sweep, here and in MLflow
kind: cost_scaling         # time to build and to read against the length of the stream; fits need three lengths

# The axis makes streams of 512 to 8,192 tokens of 128 items.
workload: {name: associative_recall, items: 128, repeats: {values: [4, 8, 16, 32, 64]}, dim: 32, noise: 0.3}

mechanisms:
  - {name: full_attention}
  - {name: dp_cache, similarity: 0.6}

seeds: 5                   # independent series of measurements
episodes: 7                # repeats of each, of which the median counts
"""

    @classmethod
    def evaluate(
        cls,
        workload: Workload[Any],
        mechanisms: Sequence[MechanismConfig],
        seed: int,
        episodes: int,
        dtype: str,
        timeout: float | None,
        fits: Fits,
    ) -> list[Outcome]:
        return measure(workload, mechanisms, seed, episodes, dtype, timeout, fits)

    @classmethod
    def summarise(cls, rows: Sequence[Row]) -> Summary:
        cells = named_cells(rows)
        curves = list(_curves(cells))
        sections = [_times(cells), *_growth(curves)]
        return Summary((), tuple(warnings(rows, [named.cell for named in cells])), tuple(sections))


@dataclass(frozen=True)
class CostCurve:
    """Cells of one mechanism over streams of rising length: what a token or query costs, and all tokens together.

    sizes [N]: tokens; costs [S, N]: microseconds, of each seed that measured at every length
    """

    mechanism: str
    measure: str
    unit: str
    sizes: Floats
    costs: Floats


def _curves(cells: Sequence[NamedCell]) -> Iterator[CostCurve]:
    by_mechanism: dict[str, list[NamedCell]] = {}
    for cell in cells:
        by_mechanism.setdefault(canonical_json(cell.cell.mechanism), []).append(cell)
    names = dict.fromkeys(name for cell in cells for name in _time_metrics(cell))
    for name in names:
        for members in by_mechanism.values():
            have = [cell for cell in members if cell.values(name)]
            have.sort(key=lambda cell: float(np.mean(list(cell.values("tokens").values()))))
            if not have:
                continue
            seeds = sorted(set.intersection(*(set(cell.values(name)) for cell in have)))
            sizes = np.array([np.mean(list(cell.values("tokens").values())) for cell in have])
            costs = np.array([[cell.values(name)[seed] for cell in have] for seed in seeds]).reshape(-1, len(have))
            if name.endswith(US_PER_TOKEN):
                build = name.removesuffix(US_PER_TOKEN).replace("_", ", ")
                yield CostCurve(have[0].label, build, "µs to build", sizes, costs * sizes)
            else:
                yield CostCurve(have[0].label, "read", "µs a query", sizes, costs)


def _time_metrics(cell: NamedCell) -> list[str]:
    names = dict.fromkeys(column.removeprefix("metrics.") for row in cell.done.values() for column in row)
    return [name for name in names if name == US_PER_QUERY or name.endswith(US_PER_TOKEN)]


def _times(cells: Sequence[NamedCell]) -> Section:
    names = list(dict.fromkeys(name for cell in cells for name in _time_metrics(cell)))
    rows = tuple(
        (
            cell.label,
            cell.workload,
            cell.mean("tokens"),
            cell.mean("slots"),
            *(cell.mean(name, POSITIVE) for name in names),
        )
        for cell in cells
    )
    text = (
        "Microseconds, medians over repeats, then means over seeds. A build is the whole stream read alone, a read one "
        "query answered from the memory's own state; both run on one thread, after an untimed round."
    )
    return Section("times", "Times", (text,), Grid(("mechanism", "workload", "tokens", "slots", *names), rows))


def _growth(curves: Sequence[CostCurve]) -> Iterator[Section]:
    """Exponents and charts, builds and reads apart."""
    builds = [curve for curve in curves if curve.measure != "read"]
    reads = [curve for curve in curves if curve.measure == "read"]
    yield from _growth_of("build-scaling", "Building against the length of the stream", builds)
    yield from _growth_of("read-scaling", "Reading against the length of the stream", reads)


def _growth_of(name: str, title: str, curves: Sequence[CostCurve]) -> Iterator[Section]:
    if not curves:
        return
    text = (
        "cost = factor · tokens^exponent by least squares on logarithms. A fixed overhead flattens a curve at its low "
        "end, so the exponent over the upper half of the lengths stands beside that over all."
    )
    rows = tuple(_exponents(curve) for curve in curves)
    chart = Chart("tokens", curves[0].unit, tuple(map(_line, curves)), log_x=True, log_y=True)
    table = Grid(("mechanism", "measured", "exponent", "upper half", "lengths"), rows)
    yield Section(name, title, (text,), table, (chart,))


def _exponents(curve: CostCurve) -> tuple[Value, ...]:
    half = len(curve.sizes) // 2
    lengths = f"{curve.sizes.min():,.0f} to {curve.sizes.max():,.0f}"
    upper = _exponent(curve.sizes[half:], curve.costs[:, half:])
    return curve.mechanism, curve.measure, _exponent(curve.sizes, curve.costs), upper, lengths


def _exponent(sizes: Floats, costs: Floats) -> Value:
    try:
        return fit_power_law(sizes, costs).exponent
    except TooFewSizesError as error:
        return f"undefined: {error}"


def _line(curve: CostCurve) -> Line:
    intervals = [one for one in mean_intervals(curve.costs, bounds=POSITIVE) if one is not None]
    label = curve.mechanism if curve.measure in ("read", "build") else f"{curve.mechanism}, {curve.measure}"
    return Line(
        label,
        tuple(curve.sizes.tolist()),
        tuple(one.mean for one in intervals),
        tuple(one.low for one in intervals),
        tuple(one.high for one in intervals),
    )
