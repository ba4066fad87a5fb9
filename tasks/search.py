"""What a study searches: parameters of a workload and a mechanism, objectives, constraints, and what it proposes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from models.config import Config, round_number
from models.leaks import leaks_future
from models.stream import Floats

Direction = Literal["maximize", "minimize"]
Choice = str | float | int | bool | None
Params = dict[str, Any]
ProposalState = Literal["open", "complete", "stopped", "failed"]

MECHANISM, WORKLOAD = "mechanism", "workload"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


When = Annotated[
    dict[str, Choice | list[Choice]],
    Field(min_length=1, description="searched only where these parameters have this value, or one of these"),
]


class Range(_Strict):
    """Numbers from low to high, both included; whole ones on a field of whole numbers."""

    low: float = Field(description="least value")
    high: float = Field(description="greatest value")
    log: bool = Field(False, description="search in equal ratios instead of equal steps; low must be above 0")
    step: float | None = Field(None, gt=0, description="only low, low + step, low + 2 step, ...")
    when: When | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Range:
        if self.low >= self.high:
            raise ValueError(f"low ≥ high: from {self.low:g} to {self.high:g}")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic range cannot begin at {self.low:g}: write a low above 0")
        if self.log and self.step is not None:
            raise ValueError("a logarithmic range has no step: leave `log` or `step` out")
        if self.step is not None and self.step > (self.high - self.low) * (1 + 1e-9):
            raise ValueError(f"a step of {self.step:g} leads from {self.low:g} beyond {self.high:g}")
        return self


class Choices(_Strict):
    """One of several values, without an order."""

    choices: list[Choice] = Field(min_length=1, description="the values, each once")
    when: When | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Choices:
        if len(set(self.choices)) < len(self.choices):  # to Optuna, as to Python, true is 1
            raise ValueError("`choices` has a value twice; each must be there once")
        return self


def _form(value: Any) -> str | None:
    if isinstance(value, dict):
        return "choices" if "choices" in value else "a range"
    return "a range" if isinstance(value, Range) else "choices" if isinstance(value, Choices) else None


Dimension = Annotated[
    Annotated[Range, Tag("a range")] | Annotated[Choices, Tag("choices")],
    Discriminator(_form),
]


class Bound(_Strict):
    """What a metric may be at most, or must be at least."""

    at_most: float | None = Field(None, description="a proposal that is above is not feasible")
    at_least: float | None = Field(None, description="a proposal that is below is not feasible")

    @model_validator(mode="after")
    def _one(self) -> Bound:
        if self.at_most is None and self.at_least is None:
            raise ValueError("a constraint needs `at_most`, `at_least`, or both")
        if self.at_most is not None and self.at_least is not None and self.at_least > self.at_most:
            raise ValueError(f"nothing is at least {self.at_least:g} and at most {self.at_most:g}")
        return self

    def violations(self, value: float) -> dict[str, float]:
        """By how much `value` is beyond each end; at most 0 where it is not."""
        found = {}
        if self.at_most is not None:
            found["at_most"] = value - self.at_most
        if self.at_least is not None:
            found["at_least"] = self.at_least - value
        return found


@dataclass(frozen=True)
class Parameter:
    """One dimension of a study, made out for its workload and mechanism.

    name   `mechanism.FIELD` or `workload.FIELD`
    kind   whether it takes numbers, whole numbers or one of `choices`
    low, high, log, step   of numbers
    when   it exists only where each of these parameters has one of these values
    """

    name: str
    kind: Literal["float", "int", "categorical"]
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    step: float | None = None
    choices: tuple[Choice, ...] = ()
    when: tuple[tuple[str, tuple[Choice, ...]], ...] = ()

    def is_active(self, params: Mapping[str, Any]) -> bool:
        """Whether it exists beside the values of the parameters before it."""
        return all(name in params and params[name] in values for name, values in self.when)

    @property
    def some_values(self) -> tuple[Any, ...]:
        """Its choices, or both ends of its range."""
        return self.choices if self.kind == "categorical" else (self.number(self.low), self.number(self.high))

    def number(self, value: float) -> float | int:
        """`value` as this parameter's field takes it: whole, or rounded as every number of a config is."""
        return int(value) if self.kind == "int" else round_number(value)

    @property
    def size(self) -> int | None:
        """How many values it can take; None where there are infinitely many."""
        if self.kind == "categorical":
            return len(self.choices)
        if self.kind == "float" and self.step is None:
            return None
        return math.floor((self.high - self.low) / (self.step or 1) + 1e-9) + 1

    def grid(self) -> list[Any] | None:
        """Every value it can take; None where there are infinitely many."""
        if self.kind == "categorical":
            return list(self.choices)
        return None if self.size is None else [self._at(index) for index in range(self.size)]

    def takes(self, value: Any) -> bool:
        """Whether `value` is one of its values."""
        if self.kind == "categorical":
            return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in self.choices)
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        return (self.kind == "float" and self.step is None) or self.nearest(value) == round_number(value)

    def nearest(self, value: float) -> float | int:
        """The number that it can take nearest to `value`, which lies in its range."""
        return self.number(value) if self.step is None else self._at(round((value - self.low) / self.step))

    def _at(self, index: int) -> float | int:
        """The number `index` steps above the lowest."""
        value = self.low + index * (self.step or 1)
        # -0.3 + 3 * 0.1 is -5.6e-17, which rounding to significant digits would keep.
        return self.number(0.0 if abs(value) < 1e-12 * max(abs(self.low), abs(self.high)) else value)


def parameters_of(
    search: Mapping[str, Dimension], workload: type[Config], mechanism: type[Config]
) -> tuple[Parameter, ...]:
    """Those dimensions of `search` that bear on a study of `mechanism` on `workload`, conditions first.

    A dimension is named `workload.FIELD`, `mechanism.FIELD` (any mechanism) or by a mechanism's name, `dp_cache.tau`.
    Raises ValueError where a field is unknown or takes no numbers, one is named twice, or conditions go in circles.
    """
    name = str(mechanism.model_fields["name"].default)
    found: dict[str, Parameter] = {}
    for path, dimension in search.items():
        owner, _, field_name = path.partition(".")
        if owner not in (WORKLOAD, MECHANISM, name):
            continue
        family = WORKLOAD if owner == WORKLOAD else MECHANISM
        config = workload if family == WORKLOAD else mechanism
        full = f"{family}.{field_name}"
        if field_name not in config.model_fields or field_name == "name":
            raise ValueError(f"`{path}`: {config.model_fields['name'].default} has no field `{field_name}`")
        if full in found:
            raise ValueError(f"`{path}`: `{full}` is searched twice for {name}")
        found[full] = _parameter(full, dimension, config, field_name, name)
    return _ordered(found)


def _parameter(full: str, dimension: Dimension, config: type[Config], field_name: str, mechanism: str) -> Parameter:
    when = tuple(
        (full_name(path, mechanism), tuple(values) if isinstance(values, list) else (values,))
        for path, values in (dimension.when or {}).items()
    )
    if isinstance(dimension, Choices):
        return Parameter(full, "categorical", choices=tuple(dimension.choices), when=when)
    types = number_types(config, field_name)
    if not types:
        raise ValueError(f"`{full}` takes no numbers: write {{choices: [...]}}")
    whole = types == {"integer"}
    ends = [dimension.low, dimension.high, *([] if dimension.step is None else [dimension.step])]
    if whole and not all(float(end).is_integer() for end in ends):
        raise ValueError(f"`{full}` takes whole numbers: write whole ends and a whole step")
    kind: Literal["int", "float"] = "int" if whole else "float"
    return Parameter(full, kind, dimension.low, dimension.high, dimension.log, dimension.step, when=when)


def full_name(path: str, mechanism: str) -> str:
    """What `path`, a dimension as it is written, is called in a study of `mechanism`."""
    owner, _, field_name = path.partition(".")
    return f"{MECHANISM if owner == mechanism else owner}.{field_name}"


def number_types(config: type[Config], field_name: str) -> set[str]:
    """Which of JSON's `integer` and `number` a field takes."""
    schema = config.model_json_schema()
    branches = [schema["properties"][field_name]]
    found: set[str] = set()
    while branches:
        branch = branches.pop()
        if "$ref" in branch:
            branch = schema["$defs"][branch["$ref"].rsplit("/", 1)[1]]
        branches += branch.get("anyOf", []) + branch.get("oneOf", [])
        found |= {branch.get("type")} & {"integer", "number"}
    return found


def _ordered(found: dict[str, Parameter]) -> tuple[Parameter, ...]:
    """Every parameter after those it depends on, otherwise as written."""
    placed: dict[str, Parameter] = {}
    while len(placed) < len(found):
        ready = [
            one for one in found.values() if one.name not in placed and all(name in placed for name, _ in one.when)
        ]
        if not ready:
            stuck = next(one for one in found.values() if one.name not in placed)
            missing = next((name for name, _ in stuck.when if name not in found), None)
            why = f"`{missing}` is not searched" if missing else "their conditions go in circles"
            raise ValueError(f"`{stuck.name}` is searched only `when` something holds, but {why}")
        placed[ready[0].name] = ready[0]
    return tuple(placed.values())


def split(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields that `params` set: of the workload, and of the mechanism."""
    fields: dict[str, dict[str, Any]] = {WORKLOAD: {}, MECHANISM: {}}
    for name, value in params.items():
        family, _, field_name = name.partition(".")
        fields[family][field_name] = value
    return fields[WORKLOAD], fields[MECHANISM]


@dataclass(frozen=True)
class Goal:
    """What a study is for: objectives by metric, all of which count, and bounds that a proposal must keep."""

    objectives: Mapping[str, Direction]
    constraints: Mapping[str, Bound] = field(default_factory=dict)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that decide, each once."""
        return tuple(dict.fromkeys([*self.objectives, *self.constraints]))

    @property
    def directions(self) -> list[Direction]:
        """Of the objectives, in order."""
        return list(self.objectives.values())

    @property
    def signs(self) -> Floats:
        """What makes losses [M] of the objectives: 1 where they are minimised, -1 where they are maximised."""
        return np.array([1.0 if direction == "minimize" else -1.0 for direction in self.directions])

    def losses(self, metrics: Mapping[str, Mapping[int, float]], seeds: Sequence[int]) -> Floats:
        """Objectives [seeds, M] of a proposal, all to be minimised, from metrics by name and seed."""
        columns = [[metrics[name][seed] for seed in seeds] for name in self.objectives]
        losses: Floats = np.array(columns, dtype=np.float64).T * self.signs
        return losses

    def values(self, metrics: Mapping[str, Mapping[int, float]]) -> list[float]:
        """The means of the objectives over the seeds that are there."""
        return [mean_of(metrics[name]) for name in self.objectives]

    def violations(self, metrics: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
        """By how much the mean of a metric is beyond each bound; all at most 0: the proposal is feasible."""
        return {
            f"{name} {end}": beyond
            for name, bound in self.constraints.items()
            for end, beyond in bound.violations(mean_of(metrics[name])).items()
        }

    def keeps(self, metrics: Mapping[str, Mapping[int, float]]) -> bool:
        """Whether every bound is kept, on the mean of the seeds that are there."""
        return all(beyond <= 0 for beyond in self.violations(metrics).values())


def mean_of(values: Mapping[int, float]) -> float:
    """The mean over seeds, rounded so that the order of summation does not show."""
    return round_number(float(np.mean([values[seed] for seed in sorted(values)])))


@dataclass(frozen=True)
class Began:
    """The results that a study began with: how many, and the id of the sweep they are of."""

    sweep: str
    results: int


@dataclass(frozen=True)
class StudyLabel:
    """A study among those of a sweep.

    number     from 0
    title      of its mechanism and workload, with what tells them apart
    group      the same without the repeat: what studies share that differ by the sampler's seed alone
    sampler    the name of what makes its proposals; repeat: from 0, of studies that differ by its seed alone
    workload, mechanism   their fields that are not searched, name included
    parameters what it searches
    began      what it began with, where it was told to begin with results of an earlier sweep
    """

    number: int
    title: str
    group: str
    sampler: str
    repeat: int
    workload: Mapping[str, Any]
    mechanism: Mapping[str, Any]
    parameters: tuple[Parameter, ...]
    began: Began | None = None

    def leaks(self, params: Params) -> bool:
        """Whether what `params` propose looks at later tokens."""
        return leaks_future({**self.mechanism, **split(params)[1]})


@dataclass(frozen=True)
class Proposal:
    """One proposal of a study, and what came of it.

    number   from 0, in the order in which they were made
    params   by parameter
    state    `open` while trials are missing; `complete`: all seeds; `stopped`: seeds enough to see that it is not the
             best; `failed`: some seed has no result
    metrics  of the seeds that decide, by name and seed, those that the goal names
    held_out the same of seeds that only the best are given
    same_as  the number of an earlier proposal with the same configs, whose trials it shares
    error    why it failed
    key      of its trial with the first seed, by which its trials are found among others; None: there is none
    """

    study: int
    number: int
    params: Params
    state: ProposalState
    metrics: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    held_out: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    same_as: int | None = None
    error: str | None = None
    enqueued: bool = False
    key: str | None = None


def best_of(proposals: Sequence[Proposal], goal: Goal) -> list[Proposal]:
    """The feasible, complete proposals that no other dominates, best first; with one objective, the one best.

    Of proposals with the same configs the first that is complete counts; the first of all may have been stopped.
    Equal ones are all kept, except with one objective, where the first of them is.
    """
    first: dict[tuple[int, int], Proposal] = {}
    for one in proposals:
        if may_be_best(one, goal):
            first.setdefault((one.study, one.number if one.same_as is None else one.same_as), one)
    found = list(first.values())
    losses = losses_of(found, goal)
    order = sorted(range(len(found)), key=lambda index: (losses[index].tolist(), found[index].number))
    if len(goal.objectives) == 1 or not found:
        return [found[index] for index in order[:1]]
    import moocore

    kept = moocore.is_nondominated(losses, keep_weakly=True)
    return [found[index] for index in order if kept[index]]


def may_be_best(proposal: Proposal, goal: Goal) -> bool:
    """Whether a proposal has all seeds and keeps every bound."""
    return proposal.state == "complete" and goal.keeps(proposal.metrics)


def losses_of(proposals: Sequence[Proposal], goal: Goal) -> Floats:
    """Objectives [N, M] of proposals that have results, all to be minimised: means over their seeds."""
    values = [goal.values(one.metrics) for one in proposals]
    losses: Floats = np.array(values, dtype=np.float64).reshape(len(proposals), len(goal.objectives)) * goal.signs
    return losses


def every_combination(parameters: Sequence[Parameter]) -> Iterator[Params] | None:
    """Every combination of values that the parameters allow; None where there are infinitely many."""
    grids = [parameter.grid() for parameter in parameters]
    if any(grid is None for grid in grids):
        return None
    return _combine(parameters, [grid or [] for grid in grids], {})


def some_combinations(parameters: Sequence[Parameter]) -> Iterator[Params]:
    """Every combination of choices and of the ends of ranges that the parameters allow."""
    return _combine(parameters, [list(parameter.some_values) for parameter in parameters], {})


def _combine(parameters: Sequence[Parameter], grids: Sequence[list[Any]], chosen: Params) -> Iterator[Params]:
    if not parameters:
        yield chosen
    elif parameters[0].is_active(chosen):
        for value in grids[0]:
            yield from _combine(parameters[1:], grids[1:], {**chosen, parameters[0].name: value})
    else:
        yield from _combine(parameters[1:], grids[1:], chosen)
