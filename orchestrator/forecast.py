"""What trials will cost, from what finished trials cost here: each mechanism by its law, shared streams by theirs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from models.config import canonical_json
from models.mechanism import MECHANISMS
from orchestrator.batching import PAIR_SECONDS, STREAM_SECONDS, stream_tokens
from orchestrator.plan import is_trained, trains_together
from orchestrator.store.records import CellCost, CellRow, StreamCost
from tasks.kind import KINDS

if TYPE_CHECKING:
    from orchestrator.store.glance import Glance
    from tasks.cost_law import Prediction, Sizes

HISTORY_CELLS = 500
HISTORY_RESULTS = 20_000

LOAD = 0.15
"""Relative deviation of the speed of one machine from one day to another, with what else it has to do."""

LEAST_SECONDS = 1e-9

MEMORY_DOUBT = 0.25
"""Memory follows from the lengths of streams more closely than time does, and is the same on every day."""

LINEAR_TOKENS, SQUARE_TOKENS = 400.0, 600.0
"""Lengths at which tokens, and pairs of tokens, cost a memory as much as its calls. A law that is fitted to short
streams, where calls are all that counts, would else stay flat; what is measured bends this growth by its exponent."""

C = TypeVar("C", CellCost, StreamCost)


@dataclass(frozen=True)
class Work:
    """Trials of one cell that are to be computed."""

    cell: CellRow
    trials: int


@dataclass(frozen=True)
class Sized:
    """A predicted size, with its standard deviation."""

    value: float
    deviation: float


@dataclass(frozen=True)
class Forecast:
    """What some work will cost, in seconds of one worker.

    own        of one trial of each work by itself, training shared out among seeds; None: unknown
    shared     of the streams of one seed, for each work: what it pays for together with all that read the same streams
    total      of everything that is known; deviation: its standard deviation
    longest    of the longest batch, as far as known
    unknown    mechanisms without a finished trial, with the device class
    beyond     sizes that lie outside what was measured, by mechanism
    trials     finished trials that this rests on
    """

    own: tuple[float | None, ...]
    shared: tuple[float, ...]
    total: float
    deviation: float
    longest: float
    unknown: tuple[str, ...]
    beyond: Mapping[str, tuple[str, ...]]
    trials: int

    @property
    def spread(self) -> float:
        """The factor by which costs may be above or below the forecast, with 95% probability."""
        return math.exp(1.96 * math.hypot(self.deviation / self.total, LOAD)) if self.total else 1.0


class History:
    """What trials and streams took on the machines behind a store."""

    def __init__(self, store: Glance | None, mechanisms: set[str]) -> None:
        cells = store.cell_costs(mechanisms, HISTORY_CELLS) if store is not None else []
        streams = store.stream_costs(HISTORY_RESULTS) if store is not None else []
        self.cells = [cost for cost in cells if _readable(cost.cell)]
        self.streams = [cost for cost in streams if _readable(cost.cell) and not is_trained(cost.cell)]

    def forecast(self, works: Sequence[Work]) -> Forecast:
        """What `works` will cost."""
        from tasks.cost_law import predict_costs

        own: list[float | None] = [0.0 if not work.trials else None for work in works]
        total = variance = 0.0
        unknown: list[str] = []
        beyond: dict[str, tuple[str, ...]] = {}
        trials = 0
        for (name, asked), members in _by_mechanism(works).items():
            known = _on_device(self.cells, asked, name)
            if not known:
                unknown.append(name if asked in ("any", "cpu") else f"{name} on {asked}")
                continue
            trials += sum(cost.trials for cost in known)
            sizes = [_sizes(cost.cell, cost.trials / cost.attempts, _own_growth) for cost in known]
            wanted = [_sizes(works[i].cell, works[i].trials, _own_growth) for i in members]
            paid = [
                1.0 if trains_together(works[i].cell) else works[i].trials * works[i].cell.episodes for i in members
            ]
            found = predict_costs(sizes, [_cost(cost) for cost in known], wanted, paid)
            seen = {cost.cell.digest: cost for cost in known}
            for index, each, times in zip(members, found.each.tolist(), paid, strict=True):
                work = works[index]
                exact = seen.get(work.cell.digest)
                mine = _cost(exact) if exact is not None and not trains_together(work.cell) else each
                own[index] = mine * times / work.trials
                total += mine * times
            variance += found.deviation**2
            if found.beyond:
                beyond[name] = found.beyond
        shared, streams = self._streams(works)
        total += sum(one.total for one in streams)
        variance += sum(one.deviation**2 for one in streams)
        longest = _longest(works, own, shared)
        return Forecast(
            tuple(own), tuple(shared), total, math.sqrt(variance), longest, tuple(sorted(unknown)), beyond, trials
        )

    def _streams(self, works: Sequence[Work]) -> tuple[list[float], list[Prediction]]:
        """Seconds that the streams of one seed take, for each of `works`, and what all streams take, class by class."""
        from tasks.cost_law import predict_costs

        shared = [0.0] * len(works)
        predictions = []
        by_device: dict[str, list[list[int]]] = {}
        for members in _by_streams(works):
            by_device.setdefault(works[members[0]].cell.device, []).append(members)
        for asked, groups in by_device.items():
            known = _on_device(self.streams, asked)
            if not known:
                continue
            heads = [works[members[0]].cell for members in groups]
            runs = [max(works[index].trials for index in members) for members in groups]
            costs = [max(cost.seconds / cost.cell.episodes, LEAST_SECONDS) for cost in known]
            paid = [count * head.episodes for count, head in zip(runs, heads, strict=True)]
            sizes = [_stream_sizes(cost.cell, _shared_growth) for cost in known]
            found = predict_costs(sizes, costs, [_stream_sizes(head, _shared_growth) for head in heads], paid)
            predictions.append(found)
            for members, head, each in zip(groups, heads, found.each.tolist(), strict=True):
                for index in members:
                    shared[index] = each * head.episodes
        return shared, predictions

    def largest(
        self, works: Sequence[Work], size: Callable[[CellCost], int | None], growth: Callable[[int], float]
    ) -> Sized | None:
        """The largest `size` that trials of `works` will have; None if it was never measured for a mechanism of theirs.

        growth: how it grows with the tokens of a stream, roughly: the law is fitted to how it differs from that
        """
        from tasks.cost_law import predict_costs

        found: list[Sized] = []
        for (name, asked), members in _by_mechanism(works).items():
            known = [cost for cost in _on_device(self.cells, asked, name) if size(cost)]
            if not known:
                return None
            sizes = [_sizes(cost.cell, cost.trials / cost.attempts, growth) for cost in known]
            wanted = [_sizes(works[i].cell, works[i].trials, growth) for i in members]
            taken = [float(size(cost) or 0) for cost in known]
            each = predict_costs(sizes, taken, wanted, [1.0] * len(wanted), MEMORY_DOUBT)
            found += map(Sized, each.each.tolist(), each.deviations.tolist())
        return max(found, key=lambda one: one.value, default=None)


def _by_mechanism(works: Sequence[Work]) -> dict[tuple[str, str], list[int]]:
    """Indices of works with trials, by name of the mechanism and device class."""
    found: dict[tuple[str, str], list[int]] = {}
    for index, work in enumerate(works):
        if work.trials:
            found.setdefault((work.cell.mechanism["name"], work.cell.device), []).append(index)
    return found


def _by_streams(works: Sequence[Work]) -> list[list[int]]:
    """Indices of works with trials that read the same streams; mechanisms that train read theirs alone."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for index, work in enumerate(works):
        if work.trials and not is_trained(work.cell):
            found.setdefault((_text(work.cell.workload), *_rest(work.cell)), []).append(index)
    return list(found.values())


def _rest(cell: CellRow) -> tuple[Any, ...]:
    return cell.episodes, cell.dtype, cell.device


def _longest(works: Sequence[Work], own: Sequence[float | None], shared: Sequence[float]) -> float:
    """The longest batch: all seeds that train together, one that trains alone, or all trials of one seed."""
    alone = [
        (own[i] or 0.0) * (work.trials if trains_together(work.cell) else 1)
        for i, work in enumerate(works)
        if work.trials and is_trained(work.cell)
    ]
    seeds = [shared[members[0]] + sum(own[i] or 0.0 for i in members) for members in _by_streams(works)]
    return max([*alone, *seeds], default=0.0)


def _on_device(costs: Sequence[C], asked: str, name: str | None = None) -> list[C]:
    """Costs (of the mechanism `name`) on the device class that is asked for: for `any`, the one known best."""
    by_device: dict[str, list[C]] = {}
    for cost in costs:
        if name is None or cost.cell.mechanism["name"] == name:
            by_device.setdefault(cost.device, []).append(cost)
    if asked != "any":
        return by_device.get(asked, [])
    return max(by_device.values(), key=len, default=[])


def _cost(cost: CellCost) -> float:
    """Seconds of one episode of one trial by itself; of seeds that train together, of all of them."""
    if trains_together(cost.cell):
        return max(cost.wall_seconds * cost.trials / cost.attempts, LEAST_SECONDS)
    own = cost.wall_seconds if cost.own_seconds is None else cost.own_seconds
    return max(own / cost.cell.episodes, LEAST_SECONDS)


def _sizes(cell: CellRow, seeds: float, growth: Callable[[int], float]) -> Sizes:
    """What sets the cost of a trial: its stream, its mechanism's fields, and whether it was measured alone."""
    sizes = {**_stream_sizes(cell, growth), **dict(_numbers_and_words(cell.mechanism))}
    return {**sizes, "seeds": seeds, "episodes": cell.episodes} if trains_together(cell) else sizes


def _own_growth(tokens: int) -> float:
    """How a trial's own cost grows with its stream: calls, then every token, in the end pairs of them."""
    return 1.0 + tokens / LINEAR_TOKENS + (tokens / SQUARE_TOKENS) ** 2


def _shared_growth(tokens: int) -> float:
    """How the cost of a stream grows: it is made, then all its pairs of tokens are compared."""
    return STREAM_SECONDS + PAIR_SECONDS * tokens**2


def _stream_sizes(cell: CellRow, growth: Callable[[int], float]) -> dict[str, float | str]:
    """What sets the cost of a stream, with `growth` for its tokens."""
    workload = {f"workload.{name}": value for name, value in _numbers_and_words(cell.workload) if name != "dim"}
    dim = cell.workload.get("dim")
    measured = "alone" if KINDS.implementation(cell.kind).measures_time else "beside others"
    width = {"dim": float(dim)} if isinstance(dim, int | float) else {}
    return {
        "tokens": growth(_tokens(_text(cell.workload)) or 1),
        "workload": cell.workload["name"],
        **width,
        **workload,
        "measured": measured,
    }


def _numbers_and_words(fields: Mapping[str, Any]) -> list[tuple[str, float | str]]:
    """Numbers above 0, and words, by field; the name is no field."""
    found: list[tuple[str, float | str]] = []
    for name, value in fields.items():
        if isinstance(value, bool | str) and name != "name":
            found.append((name, str(value)))
        elif isinstance(value, int | float) and value > 0:
            found.append((name, float(value)))
    return found


def _text(workload: Mapping[str, Any]) -> str:
    return canonical_json(workload)


@lru_cache(maxsize=4096)
def _tokens(workload: str) -> int | None:
    """Tokens in a stream of a workload given as JSON; None if nothing here can read it any more."""
    try:
        return stream_tokens(json.loads(workload))
    except (KeyError, ValidationError):
        return None


def _readable(cell: CellRow) -> bool:
    """Whether the cell's kinds of things are known here: a plug-in may be missing, a config may have changed."""
    known = cell.mechanism["name"] in MECHANISMS and cell.kind in KINDS
    return known and _tokens(_text(cell.workload)) is not None
