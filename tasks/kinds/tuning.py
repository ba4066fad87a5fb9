"""Tuning: studies that search the fields of mechanisms and workloads for the best under constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from tasks.cells import Row
from tasks.frontier import summarise
from tasks.kind import NOTHING_ASKED, Asked, Kind, KindConfig, kind
from tasks.search import Bound, Choice, Dimension, Direction, Goal
from tasks.summary import Summary

SamplerName = Literal["tpe", "nsga2", "nsga3", "gp", "qmc", "cmaes", "random", "grid", "brute_force"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SamplerOptions(_Strict):
    """A sampler with options of its own; those that it does not have are refused."""

    name: SamplerName = Field(description="how proposals are made")
    startup: int | None = Field(
        None, ge=0, description="tpe, gp, cmaes: random proposals before it learns, a batch at least; tpe: 10"
    )
    population: int | None = Field(
        None, ge=2, description="nsga2, nsga3, cmaes: proposals in a generation; nsga: a fifth of all, 50 at most"
    )

    @model_validator(mode="after")
    def _has(self) -> SamplerOptions:
        having = {"startup": ("tpe", "gp", "cmaes"), "population": ("nsga2", "nsga3", "cmaes")}
        for option, names in having.items():
            if getattr(self, option) is not None and self.name not in names:
                raise ValueError(f"sampler {self.name} has no `{option}`; it is one of {', '.join(names)}")
        return self


def _form_of_sampler(value: Any) -> str | None:
    if isinstance(value, str):
        return "a name"
    return "options" if isinstance(value, dict | SamplerOptions) else None


Sampler = Annotated[
    Annotated[SamplerName, Tag("a name")] | Annotated[SamplerOptions, Tag("options")], Discriminator(_form_of_sampler)
]


def _form_of_samplers(value: Any) -> str:
    return "a list" if isinstance(value, list) else "one"


class Wilcoxon(_Strict):
    """More seeds only for proposals that may still be the best: a signed-rank test paired by seed decides."""

    name: Literal["wilcoxon"] = "wilcoxon"
    first: int = Field(5, ge=4, description="seeds that every proposal is given; their number doubles at each look")
    p: float = Field(0.1, gt=0, le=0.5, description="a proposal is stopped where it is worse with a smaller p")


class Levels(_Strict):
    """Longer trials only for proposals that did well in shorter ones, by one of Optuna's pruners."""

    name: Literal["median", "percentile", "successive_halving", "hyperband"]
    field: str = Field(description="what makes trials longer: `mechanism.steps`, say")
    levels: list[float] = Field(
        min_length=2, description="its values, rising; a proposal that is kept ends at the last"
    )
    percentile: float = Field(25.0, gt=0, lt=100, description="percentile: the share that is kept, in %")
    reduction: int = Field(3, ge=2, description="successive_halving, hyperband: one in so many goes on")

    @model_validator(mode="before")
    @classmethod
    def _has_levels(cls, given: Any) -> Any:
        if isinstance(given, dict) and not {"field", "levels"} <= given.keys():
            raise ValueError(
                "`field` and `levels` say what makes trials longer: "
                f"{{name: {given.get('name', 'median')}, field: mechanism.steps, levels: [100, 300, 900]}}"
            )
        return given

    @model_validator(mode="after")
    def _rise(self) -> Levels:
        if any(later <= earlier for earlier, later in zip(self.levels, self.levels[1:], strict=False)):
            raise ValueError("`levels` must rise")
        return self


def _form_of_pruner(value: Any) -> str | None:
    if isinstance(value, str):
        return "a word"
    name = value.get("name") if isinstance(value, dict) else getattr(value, "name", None)
    return "over seeds" if name == "wilcoxon" else "over levels"


Pruner = Annotated[
    Annotated[Literal["wilcoxon", "none"], Tag("a word")]
    | Annotated[Wilcoxon, Tag("over seeds")]
    | Annotated[Levels, Tag("over levels")],
    Discriminator(_form_of_pruner),
]


class TuningConfig(KindConfig):
    """Search by Optuna: proposals are evaluated over the same seeds, the best on seeds of their own."""

    name: Literal["tuning"] = "tuning"
    search: dict[str, Dimension] = Field(
        min_length=1,
        description="what is searched: {mechanism.tau: {low: 0.05, high: 0.95}}, by `mechanism`, `workload` or the "
        "name of one mechanism; a range has low, high, and log or step; a choice has {choices: [...]}; `when` ties "
        "one to others",
    )
    objectives: dict[str, Direction] = Field(
        min_length=1, description="metrics and whether to maximize or minimize them: {recall: maximize}"
    )
    constraints: dict[str, Bound] = Field(
        default_factory=dict, description="metrics and their bounds: {slots_mean: {at_most: 18}}"
    )
    trials: int = Field(ge=1, le=1_000_000, description="proposals that every study makes")
    sampler: Annotated[
        Annotated[Sampler, Tag("one")] | Annotated[list[Sampler], Field(min_length=1), Tag("a list")],
        Discriminator(_form_of_samplers),
    ] = Field("tpe", description="what makes proposals: tpe, nsga2, nsga3, gp, qmc, cmaes, random, grid, brute_force")
    sampler_seed: int = Field(0, ge=0, le=2**32 - 1, description="the samplers' seed, from which all proposals follow")
    repeats: int = Field(1, ge=1, le=1000, description="studies alike, which differ by the sampler's seed alone")
    batch: int | None = Field(
        None, ge=1, le=10_000, description="proposals made at once, from all results but those of the batch before"
    )
    pruner: Pruner = Field(
        "wilcoxon", description="what spares poor proposals: wilcoxon (over seeds), none, or one over {levels: [...]}"
    )
    enqueue: list[dict[str, Choice]] = Field(
        default_factory=list, description="known points, tried first: [{mechanism.tau: 0.4}]"
    )
    warm_start: str | None = Field(
        None,
        min_length=3,
        description="id of an ended tuning sweep: each study begins with its results of the same mechanism, "
        "workload, fixed fields, episodes and dtype, by the same sampler and in the same repeat",
    )
    held_out: int = Field(
        20, ge=0, le=100_000, description="seeds, not used for tuning, on which the best of each study are evaluated"
    )

    @property
    def goal(self) -> Goal:
        """Objectives and constraints."""
        return Goal(self.objectives, self.constraints)

    @property
    def samplers(self) -> tuple[SamplerOptions, ...]:
        """Every sampler that is compared."""
        listed = self.sampler if isinstance(self.sampler, list) else [self.sampler]
        return tuple(SamplerOptions(name=one) if isinstance(one, str) else one for one in listed)

    @property
    def stops(self) -> Wilcoxon | Levels | None:
        """What spares poor proposals, with its options."""
        if isinstance(self.pruner, str):
            return Wilcoxon() if self.pruner == "wilcoxon" else None
        return self.pruner


@kind(TuningConfig)
class Tuning(Kind):
    """Fair only where every mechanism has as many proposals, so each has a study of its own with the same budget."""

    proposes = True
    sequences = True

    starter = """\
name: my-tuning            # names the sweep, here and in MLflow
kind: tuning               # searches fields for the best by Optuna

# What makes the streams. `slotsweep list workloads` shows all workloads and their fields.
workload: {name: associative_recall, items: 64, repeats: 4, classes: 16, dim: 32, noise: 0.3}

# Each has studies of its own, with the same number of proposals.
mechanisms:
  - {name: dp_cache}

search:                    # fields of mechanisms (by name, or `mechanism` for all) and of the workload
  dp_cache.tau: {low: 0.05, high: 0.95}

objectives: {recall: maximize}
constraints: {slots: {at_most: 64}}
trials: 40                 # proposals a study makes

seeds: 10                  # proposals are compared on these; poor ones are spared most of them
held_out: 20               # further seeds, on which only the best is evaluated: the number to quote
episodes: 30               # streams a trial averages over
"""

    @classmethod
    def summarise(cls, rows: Sequence[Row], asked: Asked = NOTHING_ASKED) -> Summary:
        if not isinstance(asked.options, TuningConfig):
            return summarise(rows)
        from tasks.tuning_sections import summarise_tuning

        return summarise_tuning(rows, asked.studies, asked.proposals, asked.options.goal, asked.options.held_out)
