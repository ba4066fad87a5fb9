"""The studies that a tuning spec asks for: the same every time, whatever machine asks."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from models.config import Config, MechanismConfig, round_numbers
from models.leaks import leaks_future
from orchestrator.spec import Entry, Spec
from tasks.kinds.tuning import Levels, SamplerOptions, TuningConfig
from tasks.search import Parameter, Params, StudyLabel, full_name, parameters_of, some_combinations, split
from tasks.workload import WorkloadConfig

Fields = dict[str, Any]


@dataclass(frozen=True)
class StudySpec:
    """One study: what is fixed, what is searched, and what makes its proposals.

    number     from 0
    title      tells it apart from the others; group: the same without the repeat
    workload_fields, mechanism_fields   what is fixed, `name` included, without what is searched or set by a pruner
    parameters every dimension, conditions first; at least one
    repeat     from 0, of studies that differ by the sampler's seed alone
    seed       from which its proposals follow; the same for every sampler that is compared
    """

    number: int
    title: str
    group: str
    workload_fields: Fields
    workload_class: type[Config]
    mechanism_fields: Fields
    mechanism_class: type[Config]
    parameters: tuple[Parameter, ...]
    sampler: SamplerOptions
    repeat: int
    seed: int

    @property
    def label(self) -> StudyLabel:
        """What a report is told of it."""
        return StudyLabel(
            number=self.number,
            title=self.title,
            group=self.group,
            sampler=self.sampler.name,
            repeat=self.repeat,
            workload=self.workload_fields,
            mechanism=self.mechanism_fields,
            parameters=self.parameters,
        )

    def takes(self, params: Params) -> bool:
        """Whether it could propose `params`: they are the active ones, each with one of its values."""
        active = {one.name: one for one in self.parameters if one.is_active(params)}
        return active.keys() == params.keys() and all(one.takes(params[name]) for name, one in active.items())

    @property
    def may_leak(self) -> bool:
        """Whether some of the values searched make a model that looks at later tokens, and others do not.

        Of numbers, both ends are tried.
        """
        kind = self.mechanism_class
        if not issubclass(kind, MechanismConfig) or kind.leaks_future is MechanismConfig.leaks_future:
            return False
        found = (leaks_future({**self.mechanism_fields, **split(one)[1]}) for one in some_combinations(self.parameters))
        return set(found) == {True, False}

    def configs(self, params: Params) -> tuple[WorkloadConfig, MechanismConfig]:
        """What is fixed with `params`. Raises ValidationError where the params do not go together."""
        workload, mechanism = split(params)
        read = self.workload_class.model_validate(round_numbers({**self.workload_fields, **workload}))
        memory = self.mechanism_class.model_validate(round_numbers({**self.mechanism_fields, **mechanism}))
        return cast("WorkloadConfig", read), cast("MechanismConfig", memory)


def tuning_options(spec: Spec) -> TuningConfig:
    """What the spec asks of its studies. Raises ValueError unless it tunes."""
    if not isinstance(spec.options, TuningConfig):
        raise ValueError(f"a spec of kind {spec.kind} has no studies")
    return spec.options


def studies_of(spec: Spec) -> tuple[StudySpec, ...]:
    """A study for each workload, each mechanism that is searched on it, each sampler and each repeat, in this order.

    Raises ValueError unless the spec tunes.
    """
    options = tuning_options(spec)
    workloads, mechanisms = _combinations(spec.workload_entries), _combinations(spec.mechanism_entries)
    found: list[StudySpec] = []
    for (w, workload), (m, mechanism) in itertools.product(enumerate(workloads), enumerate(mechanisms)):
        parameters = parameters_of(options.search, workload.config_class, mechanism.config_class)
        if not parameters:
            continue
        own = [_title(mechanism, mechanisms)]
        own += [_title(workload, workloads)] if len(workloads) > 1 else []
        for sampler, repeat in itertools.product(options.samplers, range(options.repeats)):
            group = ", ".join([*own, *_sampler_title(sampler, options.samplers)])
            found.append(
                StudySpec(
                    number=len(found),
                    title=group if options.repeats == 1 else f"{group}, repeat {repeat + 1}",
                    group=group,
                    workload_fields=_fixed(workload, parameters, options),
                    workload_class=workload.config_class,
                    mechanism_fields=_fixed(mechanism, parameters, options),
                    mechanism_class=mechanism.config_class,
                    parameters=parameters,
                    sampler=sampler,
                    repeat=repeat,
                    seed=_seed(options.sampler_seed, w, m, repeat),
                )
            )
    return tuple(found)


@dataclass(frozen=True)
class _Combination:
    """One config of a workload or mechanism, with a value for what is searched of it."""

    config_class: type[Config]
    fields: Fields

    @property
    def name(self) -> str:
        return str(self.fields["name"])


def _combinations(entries: Sequence[Entry]) -> list[_Combination]:
    return [_Combination(entry.config_class, fields) for entry in entries for fields in entry.combinations()]


def _fixed(one: _Combination, parameters: Sequence[Parameter], options: TuningConfig) -> Fields:
    """The fields that no proposal sets, nor a pruner."""
    family = "mechanism" if issubclass(one.config_class, MechanismConfig) else "workload"
    searched = {parameter.name for parameter in parameters}
    if isinstance(options.stops, Levels):
        searched.add(full_name(options.stops.field, one.name))
    return {name: value for name, value in one.fields.items() if f"{family}.{name}" not in searched}


def _title(one: _Combination, beside: Sequence[_Combination]) -> str:
    """Its name, and the fields in which it differs from others of that name."""
    same = [other.fields for other in beside if other.name == one.name]
    names = dict.fromkeys(name for fields in same for name in fields)
    varying = [name for name in names if len({_word(fields.get(name)) for fields in same}) > 1]
    return " ".join([one.name, *(f"{name} {_word(one.fields[name])}" for name in varying if name in one.fields)])


def _sampler_title(sampler: SamplerOptions, beside: Sequence[SamplerOptions]) -> list[str]:
    """The sampler's name where several are compared, with its options where these share it."""
    if len(beside) == 1:
        return []
    options = sampler.model_dump(exclude_none=True, exclude={"name"})
    shared = [other.name for other in beside].count(sampler.name) > 1
    return [" ".join([sampler.name, *(f"{name} {value}" for name, value in options.items() if shared)])]


def _word(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)


def _seed(base: int, *place: int) -> int:
    """A seed of 63 bits for the study at `place`."""
    low, high = np.random.SeedSequence(base, spawn_key=place).generate_state(2, np.uint32)
    return (int(high) << 32 | int(low)) >> 1
