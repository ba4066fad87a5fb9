"""One set of cells computed twice, on two devices, two machines or in two sweeps: what differs, and what each cost.

Cells are matched by workload and mechanism, trials by seed, so that both sides of a pair read the same streams.
Differences are the second side less the first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from types import MappingProxyType
from typing import Any

import numpy as np

from models.config import canonical_json
from tasks.cells import Row
from tasks.evaluate import TIMING_METRICS
from tasks.labels import NamedCell, named_cells
from tasks.statistics import Equivalence, Sample, equivalence, mean_interval, paired_values
from tasks.summary import Interval

EXACT = 1e-9
"""Tolerance between CPUs: the same decisions, and means that differ by rounding."""

NEARLY = 0.01
"""Tolerance where an accelerator took part: decisions near a tie may fall either way, which is some of the episodes."""

COSTS = re.compile(r"_us_per_|_iqr$|_peak_bytes$|_joules$|_seconds$|^waited$")
"""Metrics that say what a trial cost rather than what came out of it."""

HARDWARE = ("cpu_model", "cores", "cpus", "ram_bytes", "os", "gpu", "gpu_driver", "gpu_memory_bytes", "gpu_compute")
VERSIONS = ("python", "numpy", "numba", "torch", "ray", "blas", "git_commit", "git_dirty")
SETTINGS = ("episodes", "dtype")

RECORD = ("key", "worker", "started")
"""Columns that tell one computation of a trial from another: a reused trial is one record in several sweeps."""

SECONDS_PER_HOUR = 3600.0

Prices = tuple[float | None, float | None]
"""What an hour costs on either side."""

Code = Mapping[str, Mapping[str, str]]
"""The hash of each module behind a fingerprint, as far as it was recorded: {fingerprint: {module: hash}}."""

NO_CODE: Code = MappingProxyType({})


class NothingInCommonError(ValueError):
    """Two sides without a cell that both have computed; the message says what each has."""


@dataclass(frozen=True)
class Side:
    """One side: its name, its device class, its rows (see `tasks.frontier.summarise`), and the price of an hour.

    price: of one worker of this side for an hour, in whatever currency; None: not known
    """

    name: str
    device: str
    rows: Sequence[Row]
    price: float | None = None


@dataclass(frozen=True)
class MetricDifference:
    """One metric of a cell over the seeds that both sides have.

    a, b         means
    difference   b - a with its 95% interval, paired by seed
    largest      the largest |b - a| of any seed
    allowed      the tolerance in the metric's own unit
    exceeds      whether |mean difference| is larger than that
    equal        whether the two are equal to within it, by two one-sided tests; None where one seed cannot tell
    """

    metric: str
    a: float
    b: float
    difference: Interval
    largest: float
    allowed: float
    exceeds: bool
    equal: bool | None


@dataclass(frozen=True)
class CellComparison:
    """A cell that both sides have.

    workload, label  what tells it from the others
    seeds            seeds that both have; only_a, only_b: finished trials of one side alone
    one_record       of the seeds that both have, those whose trial is one record on both sides, computed once
    metrics          empty where no seed is common
    ratios           `speed`, `build speed`, `read speed`: a's time over b's, so above 1 where b is faster; `memory`,
                     `device memory`, `energy`: b's over a's, so above 1 where b takes more; one record has none
    costs            of a trial on each side, and b's over a's, where prices are known
    same_code        whether both ran the same code, in the modules that both used (devices have some of their own);
                     None where modules were not recorded, and fingerprints of different devices differ anyway
    """

    workload: str
    label: str
    config: dict[str, Any]
    seeds: int
    only_a: int
    only_b: int
    one_record: int
    metrics: tuple[MetricDifference, ...]
    ratios: dict[str, Interval]
    costs: tuple[float, float, float] | None
    same_code: bool | None

    @property
    def exceeding(self) -> tuple[MetricDifference, ...]:
        """Metrics that differ by more than the tolerance."""
        return tuple(metric for metric in self.metrics if metric.exceeds)


@dataclass(frozen=True)
class Flag:
    """Something beside the cells that differs between the sides, and so may stand behind a difference."""

    group: str
    name: str
    a: str
    b: str


@dataclass(frozen=True)
class Comparison:
    """Two sides, cell by cell. only_a, only_b: cells with finished trials on one side alone."""

    a: str
    b: str
    tolerance: float
    cells: tuple[CellComparison, ...]
    only_a: int
    only_b: int
    flags: tuple[Flag, ...]

    @property
    def agree(self) -> bool:
        """Whether both sides have the same trials, every cell could be compared, and none exceeds the tolerance."""
        complete = not self.only_a and not self.only_b and not any(cell.only_a or cell.only_b for cell in self.cells)
        return complete and all(cell.metrics and not cell.exceeding for cell in self.cells)


def compare_sides(a: Side, b: Side, tolerance: float | None = None, code: Code = NO_CODE) -> Comparison:
    """Compare `b` with `a`. tolerance: absolute for means up to 1 and relative above; None: by device class.

    Raises NothingInCommonError.
    """
    tolerance = _tolerance(a, b, tolerance)
    mine, others = _finished(a), _finished(b)
    common = [(mine[key], others[key]) for key in mine if key in others]
    if not common:
        raise NothingInCommonError(_nothing_in_common(a, b, list(mine.values()), list(others.values())))
    cells = tuple(_compare_cell(*pair, (a.price, b.price), tolerance, code) for pair in common)
    flags = (*_record_flag(cells), *_flags(a, b), *_code_flag(cells))
    return Comparison(a.name, b.name, tolerance, cells, len(mine) - len(common), len(others) - len(common), flags)


def uncompared(a: Side, b: Side, tolerance: float | None = None) -> Comparison:
    """Two sides of which one has no finished trial: what the other has is counted."""
    return Comparison(a.name, b.name, _tolerance(a, b, tolerance), (), len(_finished(a)), len(_finished(b)), ())


def _tolerance(a: Side, b: Side, given: float | None) -> float:
    if given is not None:
        return given
    return EXACT if a.device == b.device == "cpu" else NEARLY


def _finished(side: Side) -> dict[str, NamedCell]:
    """Cells with finished trials by their configs."""
    cells = named_cells([row for row in side.rows if row.get("state") == "done"])
    return {canonical_json([one.cell.workload, one.cell.mechanism]): one for one in cells}


def _nothing_in_common(a: Side, b: Side, mine: Sequence[NamedCell], others: Sequence[NamedCell]) -> str:
    for side, cells in ((a, mine), (b, others)):
        if not cells:
            return f"{side.name} has no finished trial yet: there is nothing to compare"
    nearest = min((_differing(x, y) for x in mine[:50] for y in others[:50]), key=len)
    return (
        f"{a.name} and {b.name} have no cell in common (their {len(mine)} and {len(others)} cells); the two nearest "
        f"differ in {', '.join(nearest[:4])}: run both from one spec, or give two sweeps of the same cells"
    )


def _differing(x: NamedCell, y: NamedCell) -> list[str]:
    parts = (("workload", x.cell.workload, y.cell.workload), ("mechanism", x.cell.mechanism, y.cell.mechanism))
    return [
        f"{part}.{name} ({one.get(name)} and {other.get(name)})"
        for part, one, other in parts
        for name in one | other
        if one.get(name) != other.get(name)
    ]


# --- one cell ---


def _compare_cell(a: NamedCell, b: NamedCell, prices: Prices, tolerance: float, code: Code) -> CellComparison:
    mine, others = a.done, b.done
    common = sorted(mine.keys() & others.keys())
    measured = [seed for seed in common if not _is_one_record(mine[seed], others[seed])]
    timed = _measured(mine, common, measured), _measured(others, common, measured)
    names = [name for name in _metrics(mine.values()) if name in _metrics(others.values())] if common else []
    differences = (_difference(name, a.values(name), b.values(name), tolerance) for name in names)
    return CellComparison(
        workload=a.workload,
        label=a.label,
        config={"workload": a.cell.workload, "mechanism": a.cell.mechanism},
        seeds=len(common),
        only_a=len(mine) - len(common),
        only_b=len(others) - len(common),
        one_record=len(common) - len(measured),
        metrics=tuple(difference for difference in differences if difference is not None),
        ratios=_ratios(*timed),
        costs=_costs(*timed, prices),
        same_code=_same_code(mine.values(), others.values(), code),
    )


def _is_one_record(a: Row, b: Row) -> bool:
    return a.get("started") is not None and all(a.get(column) == b.get(column) for column in RECORD)


def _measured(rows: Mapping[int, Row], common: Sequence[int], measured: Sequence[int]) -> Mapping[int, Row]:
    """Rows whose costs can be compared: all, or those of common seeds alone that were computed twice."""
    return rows if len(common) == len(measured) else {seed: rows[seed] for seed in measured}


def _metrics(rows: Iterable[Row]) -> list[str]:
    """Names of the metrics that say what came out."""
    return compared_metrics(
        name.removeprefix("metrics.") for row in rows for name in row if name.startswith("metrics.")
    )


def compared_metrics(names: Iterable[str]) -> list[str]:
    """Those of the metrics `names`, each once, that say what came out rather than what it cost."""
    return [name for name in dict.fromkeys(names) if name not in TIMING_METRICS and not COSTS.search(name)]


def _difference(metric: str, a: Sample, b: Sample, tolerance: float) -> MetricDifference | None:
    common = a.keys() & b.keys()
    if not common:
        return None
    means = [float(np.mean([side[seed] for seed in common])) for side in (a, b)]
    allowed = tolerance * max(1.0, abs(means[0]))
    test: Equivalence = equivalence(b, a, allowed)
    largest = float(np.abs(paired_values(b, a)).max())
    exceeds = abs(test.difference.mean) > allowed
    return MetricDifference(metric, means[0], means[1], test.difference, largest, allowed, exceeds, test.equal)


RATIOS = (
    ("speed", "wall_seconds", True),
    ("build speed", "metrics.build_us_per_token", True),
    ("read speed", "metrics.read_us_per_query", True),
    ("memory", "peak_memory_bytes", False),
    ("device memory", "device_memory_bytes", False),
    ("energy", "energy_joules", False),
)
"""Names of ratios, the columns behind them, and whether a's value stands above b's."""


def _ratios(a: Mapping[int, Row], b: Mapping[int, Row]) -> dict[str, Interval]:
    found = {name: _ratio(a, b, column, inverted) for name, column, inverted in RATIOS}
    return {name: ratio for name, ratio in found.items() if ratio is not None}


def _ratio(a: Mapping[int, Row], b: Mapping[int, Row], column: str, inverted: bool) -> Interval | None:
    """The geometric mean of the ratios of seeds that both sides have; else that of medians. None where one has none."""
    mine, others = ({seed: float(row[column]) for seed, row in rows.items() if row.get(column)} for rows in (a, b))
    above, below = (mine, others) if inverted else (others, mine)
    if not mine or not others:
        return None
    common = sorted(mine.keys() & others.keys())
    if not common:
        ratio = float(np.median(list(above.values())) / np.median(list(below.values())))
        return Interval(ratio, None, None, min(len(mine), len(others)), "medians of different seeds: no pairs")
    logs = mean_interval([math.log(above[seed] / below[seed]) for seed in common])
    low, high = (None if bound is None else math.exp(bound) for bound in (logs.low, logs.high))
    method = f"geometric mean, paired by seed, of logarithms {logs.method}"
    return Interval(math.exp(logs.mean), low, high, logs.n, method)


def _costs(a: Mapping[int, Row], b: Mapping[int, Row], prices: Prices) -> tuple[float, float, float] | None:
    """What a trial costs on each side, and how many times as much on b."""
    if prices[0] is None or prices[1] is None or not a or not b:
        return None
    hours = [float(np.mean([row["wall_seconds"] for row in side.values()])) / SECONDS_PER_HOUR for side in (a, b)]
    mine, other = (price * time for price, time in zip(prices, hours, strict=True) if price is not None)
    return (mine, other, other / mine) if mine else None


# --- what else differs ---


def _same_code(a: Iterable[Row], b: Iterable[Row], code: Code) -> bool | None:
    mine, others = list(a), list(b)
    ran, ran_too = (_values(rows, "fingerprint") for rows in (mine, others))
    if ran == ran_too:
        return True
    pairs = [(x, y) for x, y in product(ran, ran_too) if x != y]
    if all(x in code and y in code for x, y in pairs):
        return all(code[x][name] == code[y][name] for x, y in pairs for name in code[x].keys() & code[y].keys())
    return False if _values(mine, "device") == _values(others, "device") else None


def _flags(a: Side, b: Side) -> list[Flag]:
    groups = (("hardware", HARDWARE, "hw."), ("threads", ("threads",), "hw."), ("versions", VERSIONS, "hw."))
    named = chain.from_iterable(
        ((group, name, f"{prefix}{name}") for name in names)
        for group, names, prefix in (*groups, ("settings", SETTINGS, ""), ("batch", ("batch",), ""))
    )
    flags = []
    for group, name, column in named:
        mine, others = (_values(_done(side), column) for side in (a, b))
        if mine != others:
            flags.append(Flag(group, name, _shown(mine), _shown(others)))
    return flags


def _record_flag(cells: Sequence[CellComparison]) -> list[Flag]:
    same, common = sum(cell.one_record for cell in cells), sum(cell.seeds for cell in cells)
    said = f"{same} of {common} trials are one record on both sides: run one side with --no-cache"
    return [Flag("reuse", "trials", "computed once", said)] if same else []


def _code_flag(cells: Sequence[CellComparison]) -> list[Flag]:
    changed = sum(cell.same_code is False for cell in cells)
    return [Flag("code", "fingerprint", "its own", f"other code in {changed} of {len(cells)} cells")] if changed else []


def _done(side: Side) -> list[Row]:
    return [row for row in side.rows if row.get("state") == "done"]


def _values(rows: Iterable[Row], column: str) -> frozenset[Any]:
    return frozenset(row.get(column) for row in rows)


def _shown(values: frozenset[Any]) -> str:
    """Values as people read them; of many numbers their range."""
    known = [value for value in values if value is not None]
    if len(known) > 1 and all(isinstance(value, int) and not isinstance(value, bool) for value in known):
        return f"{min(known)} to {max(known)}"
    return ", ".join(sorted("unknown" if value is None else str(value) for value in values))
