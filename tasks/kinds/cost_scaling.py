"""Cost scaling: how the time to build and to read a memory, and the bytes it takes, grow with the stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from models.config import MechanismConfig, canonical_json
from models.stream import Floats
from tasks.axes import Axis, Ladder, ladders
from tasks.cells import Row
from tasks.cost import measure
from tasks.crossing import FARTHEST, Growing, crossings
from tasks.frontier import warnings
from tasks.growth_sections import growth_sections
from tasks.kind import NOTHING_ASKED, Asked, Kind, KindConfig, kind
from tasks.labels import POSITIVE, NamedCell, named_cells
from tasks.overhead import LEAST_SIZES, fit_offset_power_law
from tasks.scaling import fit_power_law
from tasks.statistics import mean_intervals
from tasks.summary import Chart, Grid, Interval, Line, Section, Summary, Value

if TYPE_CHECKING:
    from models.devices.device import DeviceClass
    from tasks.evaluate import Outcome
    from tasks.fitting import Fits
    from tasks.training import Lane, TrainingRun
    from tasks.workload import Workload

US_PER_TOKEN, US_PER_QUERY = "_us_per_token", "_us_per_query"

ENERGY = "energy_joules"

BYTES = {"bytes": "held", "build_peak_bytes": "peak of building", "kept_bytes": "kept by a training step"}
PEAK_BYTES = "_peak_bytes"

BATCHED = re.compile(r"(build|read)_(\d+)(_us_per_token|_us_per_query|_peak_bytes)")
"""Metrics of many memories (on an accelerator: streams) in one call, and how many."""

FEWEST = 3
"""Sizes that a fit needs."""

GROUPS = {
    "build": ("Building", "µs"),
    "read": ("Reading", "µs"),
    "forward": ("Forward passes", "µs a sequence"),
    "train": ("Training steps", "µs a sequence"),
    "memory": ("Memory", "bytes"),
    "energy": ("Energy", "J"),
}

CROSSING = ("forward", "train")
"""Groups of which a reader asks from which size on one of two models is the cheaper."""

FEW = 4
"""Curves up to which all are paired; of more, each is paired with the first."""

GROWTH = 1.5
"""An overhead cannot be told from a cost that grows by less than this over all sizes."""

BY_TOKEN = "build, naive"

BUILDS = (
    "Where a mechanism has both, `build` is how its memory is built alone, and `build, naive` the loop over tokens, of "
    "one matrix-vector product each: an exponent published for such a loop is to be compared with the latter. `build` "
    "takes 512 tokens at once: opening slots and calling matrix products weigh most where blocks are few, and where "
    "there are more than 256 slots, tokens that are clearly one slot's meet no later ones. So its exponent is smaller "
    "on short streams at a fixed number of slots, and nears 1 as they grow."
)
"""What the two ways to build a Dirichlet-process cache are: see `models.blocked`."""

OF_MEMORIES = (
    "Microseconds, medians over repeats, then means over seeds. A build is the whole stream read alone, a read one "
    "query answered from the memory's own state, both after an untimed round; time that other work had the processor "
    "is not counted. `bytes` is what the memory holds, `build_peak_bytes` the most that arrays took while it was "
    "built, and `energy_joules`, where the machine tells it, a trial's share, by time, of the energy of its batch: "
    "all mechanisms that read a seed's streams, with all repeats. `build_64`, `read_64` and so on are of 64 memories "
    "in one call, a token and a memory, or a query and a memory: on a CPU, of copies that read one stream of at most "
    "2,048 tokens as the trials of a batch do, whose cosines they share (mechanisms whose configs never share a call "
    "have none); on an accelerator, of 64 streams that are read at once. Their `peak_bytes` are of all memories. "
    "Energy is not told apart by batch: counters step too seldom."
)

OF_MODELS = (
    "Microseconds a token, medians over repeats, then means over seeds: of a forward pass that computes logits where "
    "the workload scores them, and of a training step, forward, backward and optimiser, each after an untimed round; "
    "time that other work had the processor is not counted. `bytes` is what parameters and the state after a sequence "
    "take, `kept_bytes` what a forward pass of training keeps for its backward pass, for a whole batch."
)

DISTURBED = 0.05
"""Share of waiting that a reader is told of."""


class CostScalingConfig(KindConfig):
    """Time to build and to read each memory, and its bytes, against each size of the stream, alone, with exponents."""

    name: Literal["cost_scaling"] = "cost_scaling"


@kind(CostScalingConfig)
class CostScaling(Kind):
    """Axes of the workload set the sizes of its streams; a cell's seeds are independent measurements.

    Trials run one after another on a machine that computes nothing else for this sweep.
    """

    evaluator: ClassVar[str] = "tasks.cost"
    device_evaluator: ClassVar[str] = "tasks.cost_device"
    sequence_evaluator: ClassVar[str] = "tasks.cost_sequences"
    sequences: ClassVar[bool] = True
    sequence_episodes: ClassVar[int | None] = 7
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
    def evaluate_on(
        cls,
        device: DeviceClass,
        workload: Workload[Any],
        mechanisms: Sequence[MechanismConfig],
        seeds: Sequence[int],
        episodes: int,
        dtype: str,
        timeout: float | None,
        fits: Fits,
    ) -> list[list[Outcome]]:
        from tasks.cost_device import measure_on

        return measure_on(device, workload, mechanisms, seeds, episodes, dtype, timeout, fits)

    @classmethod
    def train(cls, run: TrainingRun, lanes: Sequence[Lane]) -> list[Outcome]:
        from tasks.cost_sequences import measure_sequences

        return measure_sequences(run, lanes)

    @classmethod
    def summarise(cls, rows: Sequence[Row], asked: Asked = NOTHING_ASKED) -> Summary:
        cells = named_cells(rows)
        remarks = [*warnings(rows, [named.cell for named in cells]), *_disturbances(cells)]
        return Summary(
            (),
            tuple(remarks),
            (_costs(cells), *_growth([*_curves(cells), *_batch_curves(cells)]), *growth_sections(cells)),
        )


@dataclass(frozen=True)
class CostCurve:
    """What one mechanism costs on streams that differ in one size alone.

    group: build, read, memory or energy; measure: which of its kind, such as `build, naive`
    sizes [N]; costs [S, N]: of each of the seeds that measured at every size; a build's are for all tokens together
    """

    mechanism: str
    group: str
    measure: str
    axis: Axis
    fixed: str
    sizes: Floats
    costs: Floats
    seeds: tuple[int, ...]


def _curves(cells: Sequence[NamedCell]) -> Iterator[CostCurve]:
    by_mechanism: dict[str, list[NamedCell]] = {}
    for cell in cells:
        by_mechanism.setdefault(canonical_json(cell.cell.mechanism), []).append(cell)
    names = _measures(cells)
    most = max((int(found[2]) for name in names if (found := BATCHED.fullmatch(name))), default=0)
    for name in names:
        found = BATCHED.fullmatch(name)
        if found and (int(found[2]) < most or found[3] == PEAK_BYTES):
            continue
        for members in by_mechanism.values():
            have = [cell for cell in members if _values(cell, name)]
            sizes = [_sizes(cell) for cell in have]
            for ladder in ladders(sizes):
                steps = np.array([sizes[index][ladder.axis.name] for index in ladder.members])
                yield _curve(name, ladder, steps, [have[index] for index in ladder.members])


def _curve(name: str, ladder: Ladder, sizes: Floats, cells: Sequence[NamedCell]) -> CostCurve:
    seeds = sorted(set.intersection(*(set(_values(cell, name)) for cell in cells)))
    costs = np.array([[_values(cell, name)[seed] for cell in cells] for seed in seeds]).reshape(-1, len(cells))
    group, measure = "read", name.removesuffix(US_PER_QUERY).replace("_", ", ")
    if name == ENERGY:
        group, measure = "energy", "share of the batch"
    elif name in BYTES:
        group, measure = "memory", BYTES[name]
    elif name.endswith(US_PER_TOKEN):
        measure = name.removesuffix(US_PER_TOKEN).replace("_", ", ")
        group = measure if measure in GROUPS else "build"
        costs = costs * np.array([_sizes(cell)["tokens"] for cell in cells])
    return CostCurve(cells[0].label, group, measure, ladder.axis, ladder.fixed, sizes, costs, tuple(seeds))


def _batch_curves(cells: Sequence[NamedCell]) -> Iterator[CostCurve]:
    """What a call costs, all its memories together, against how many there are."""
    names = _measures(cells)
    measures = dict.fromkeys((found[1], found[3]) for name in names if (found := BATCHED.fullmatch(name)))
    for step, unit in measures:
        batches = {
            int(found[2]): name
            for name in names
            if (found := BATCHED.fullmatch(name)) and (found[1], found[3]) == (step, unit)
        }
        if 1 not in batches and f"{step}{unit}" in names:
            batches[1] = f"{step}{unit}"  # an accelerator takes one stream as it takes many
        for cell in cells:
            values = {size: of for size, name in sorted(batches.items()) if (of := _values(cell, name))}
            if len(values) < FEWEST:
                continue
            seeds = sorted(set.intersection(*map(set, values.values())))
            costs = np.array([[of[seed] for of in values.values()] for seed in seeds]).reshape(-1, len(values))
            sizes = np.array([float(size) for size in values])
            if unit != PEAK_BYTES:
                costs = costs * sizes * (_sizes(cell)["tokens"] if unit == US_PER_TOKEN else 1.0)
            group, measure = ("memory", BYTES["build_peak_bytes"]) if unit == PEAK_BYTES else (step, step)
            yield CostCurve(cell.label, group, measure, Axis("batch"), cell.workload, sizes, costs, tuple(seeds))


def _sizes(cell: NamedCell) -> dict[str, float]:
    """Tokens, as measured, and the numeric fields of the workload."""
    tokens = float(np.mean(list(cell.values("tokens").values())))
    fields = cell.cell.workload.items()
    numbers = {k: float(v) for k, v in fields if isinstance(v, int | float) and not isinstance(v, bool)}
    return {"tokens": tokens, **numbers}


def _measures(cells: Sequence[NamedCell]) -> list[str]:
    """Metrics that are costs."""
    names = dict.fromkeys(
        column.removeprefix("metrics.") for cell in cells for row in cell.done.values() for column in row
    )
    costs = [
        name
        for name in names
        if name.endswith((US_PER_QUERY, US_PER_TOKEN)) or name in BYTES or BATCHED.fullmatch(name)
    ]
    return [*costs, *([ENERGY] if any(_values(cell, ENERGY) for cell in cells) else [])]


def _values(cell: NamedCell, name: str) -> dict[int, float]:
    """The cost that each seed has: a metric, or its share of the batch's energy where that could be read."""
    if name != ENERGY:
        return cell.values(name)
    joules = {seed: row.get(ENERGY) for seed, row in cell.done.items()}
    return {seed: float(value) for seed, value in joules.items() if value is not None}


def _mean(cell: NamedCell, name: str) -> Interval | None:
    values = np.array(list(_values(cell, name).values()), dtype=np.float64)
    return mean_intervals(values[:, None], bounds=POSITIVE)[0] if len(values) else None


def _costs(cells: Sequence[NamedCell]) -> Section:
    names = _measures(cells)
    rows = tuple(
        (
            cell.label,
            cell.workload,
            cell.mean("tokens"),
            cell.mean("slots"),
            *(_mean(cell, name) for name in names),
        )
        for cell in cells
    )
    text = OF_MODELS if "forward_us_per_token" in names else OF_MEMORIES
    return Section(
        "times", "Times and bytes", (text,), Grid(("mechanism", "workload", "tokens", "slots", *names), rows)
    )


def _disturbances(cells: Sequence[NamedCell]) -> list[str]:
    """A remark if other work had the processor for a good part of the measured time."""
    shares = [share for cell in cells for share in cell.values("waited").values()]
    mean = float(np.mean(shares)) if shares else 0.0
    if mean < DISTURBED:
        return []
    return [
        f"other work had the processor for {mean:.0%} of the measured time: this is not counted, but it also used "
        "caches and memory that the measurements then lacked"
    ]


def _growth(curves: Sequence[CostCurve]) -> Iterator[Section]:
    """Exponents and charts: builds, reads and bytes, each against one axis after the other."""
    for group, (verb, unit) in GROUPS.items():
        axes = dict.fromkeys(curve.axis for curve in curves if curve.group == group)
        for number, axis in enumerate(axes):
            name = f"{group}-scaling" if number == 0 else f"{group}-scaling-{axis.name}"
            along = [curve for curve in curves if curve.group == group and curve.axis == axis]
            yield _growth_along(name, f"{verb} against {axis.name}", axis, unit, along)
            if group in CROSSING:
                yield from _crossings(f"{name}-crossings", f"Crossings: {verb} against {axis.name}", axis, along)


def _upper_half(sizes: Floats) -> Floats:
    return sizes[len(sizes) // 2 :]


def _growth_along(name: str, title: str, axis: Axis, unit: str, curves: Sequence[CostCurve]) -> Section:
    apart = any(len(np.unique(curve.sizes)) >= LEAST_SIZES for curve in curves)
    halved = any(len(np.unique(_upper_half(curve.sizes))) >= FEWEST for curve in curves)
    text = (
        f"`exponent`: cost = factor · {axis.name}^exponent by least squares on logarithms. A fixed overhead flattens a "
        "curve at its low end."
    )
    if apart:
        text += f" `exponent beside overhead` is that of cost = overhead + factor · {axis.name}^exponent."
    if halved:
        text += " `upper half` is the exponent of the plain law over the upper half of the sizes."
    chart = Chart(axis.label, unit, tuple(map(_line, curves)), log_x=True, log_y=True)
    columns = (
        *("mechanism", "measured", "fixed", "exponent"),
        *(("exponent beside overhead", "overhead") if apart else ()),
        *(("upper half",) if halved else ()),
        "sizes",
    )
    found = [_exponents(curve) for curve in curves]
    table = Grid(columns, tuple(tuple(one[column] for column in columns) for one in found))
    ways = (BUILDS,) if any(curve.measure == BY_TOKEN for curve in curves) else ()
    return Section(name, title, (text, *ways), table, (chart,))


def _exponents(curve: CostCurve) -> dict[str, Value]:
    """What a table says of a curve, by column."""
    upper = _upper_half(curve.sizes)
    beside, overhead = _apart(curve)
    return {
        "mechanism": curve.mechanism,
        "measured": curve.measure,
        "fixed": curve.fixed or None,
        "exponent": _exponent(curve.sizes, curve.costs),
        "exponent beside overhead": beside,
        "overhead": overhead,
        "upper half": _exponent(upper, curve.costs[:, -len(upper) :]),
        "sizes": f"{curve.sizes.min():,.6g} to {curve.sizes.max():,.6g} {curve.axis.label}",
    }


def _exponent(sizes: Floats, costs: Floats) -> Value:
    try:
        return fit_power_law(sizes, costs).exponent
    except ValueError as error:
        return f"undefined: {error}"


def _apart(curve: CostCurve) -> tuple[Value, Value]:
    """The exponent beside an overhead, and the overhead."""
    try:
        fit = fit_offset_power_law(curve.sizes, curve.costs)
    except ValueError as error:
        return f"undefined: {error}", None
    if not _grows(curve):
        return f"undefined: grows less than {GROWTH:g} times", None
    return fit.exponent, fit.overhead if fit.overhead.mean > 0 else "none found"


def _grows(curve: CostCurve) -> bool:
    """Whether a cost grows enough for an overhead to be told from it."""
    exponent = fit_power_law(curve.sizes, curve.costs).exponent.mean
    return bool(exponent * np.log(curve.sizes.max() / curve.sizes.min()) >= np.log(GROWTH))


def _crossings(name: str, title: str, axis: Axis, curves: Sequence[CostCurve]) -> Iterator[Section]:
    """From which size on one of two is the cheaper, by the laws fitted to both."""
    alike: dict[tuple[str, str], list[CostCurve]] = {}
    for curve in curves:
        alike.setdefault((curve.measure, curve.fixed), []).append(curve)
    pairs = [
        pair
        for same in alike.values()
        for pair in (combinations(same, 2) if len(same) <= FEW else ((same[0], one) for one in same[1:]))
    ]
    if not pairs:
        return
    text = (
        "Where the laws of two costs meet: overhead + factor · size^exponent where an overhead can be told, else the "
        f"power alone. They are followed to {FARTHEST:g} times the largest size measured, and to that part of the "
        "smallest; what lies outside the sizes measured is extrapolated: nothing was measured there. Intervals are by "
        "a jackknife over seeds, which leaves out one of both at a time."
    )
    columns = ("less below", "less above", "fixed", f"crossing, {axis.label}", "lies")
    rows = tuple(row for first, second in pairs for row in _crossing_rows(first, second))
    yield Section(name, title, (text,), Grid(columns, rows))


def _crossing_rows(first: CostCurve, second: CostCurve) -> Iterator[tuple[Value, ...]]:
    fixed, common = first.fixed or None, sorted(set(first.seeds) & set(second.seeds))
    try:
        found = crossings(*(_growing(curve, common) for curve in (first, second)))
    except ValueError as error:
        yield first.mechanism, second.mechanism, fixed, None, f"undefined: {error}"
        return
    if any(one.spans_all for one in found):
        lies = "not told apart: the interval of the crossing spans all sizes measured"
        yield first.mechanism, second.mechanism, fixed, None, lies
        return
    for one in found:
        names = (first, second) if one.first_below else (second, first)
        lies = "extrapolated" if one.extrapolated else "within the sizes measured"
        yield (*(curve.mechanism for curve in names), fixed, one.size, lies)
    if not found:
        cheaper = np.log(first.costs).mean() < np.log(second.costs).mean()
        names = (first, second) if cheaper else (second, first)
        yield names[0].mechanism, names[1].mechanism, fixed, None, "nowhere: the first costs less throughout"


def _growing(curve: CostCurve, seeds: Sequence[int]) -> Growing:
    """What `crossings` takes of a curve. Raises ValueError where there is no law."""
    fit_power_law(curve.sizes, curve.costs)  # raises it
    apart = len(np.unique(curve.sizes)) >= LEAST_SIZES and _grows(curve)
    return Growing(curve.sizes, curve.costs[[curve.seeds.index(seed) for seed in seeds]], apart)


def _line(curve: CostCurve) -> Line:
    intervals = [one for one in mean_intervals(curve.costs, bounds=POSITIVE) if one is not None]
    plain = curve.measure in GROUPS
    return Line(
        ", ".join(part for part in (curve.mechanism, "" if plain else curve.measure, curve.fixed) if part),
        tuple(curve.sizes.tolist()[: len(intervals)]),
        tuple(one.mean for one in intervals),
        tuple(one.low for one in intervals),
        tuple(one.high for one in intervals),
        fit=_law(curve) if len(intervals) == len(curve.sizes) else None,
    )


def _law(curve: CostCurve) -> tuple[float, ...] | None:
    """The power law at each size; None where there are too few."""
    try:
        law = fit_power_law(curve.sizes, curve.costs)
    except ValueError:
        return None
    return tuple(law.predict(size)[0] for size in curve.sizes.tolist())
