"""From the options of a spec to Optuna's samplers, and how parameters look to them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.kinds.tuning import SamplerName, SamplerOptions
from tasks.search import Parameter, Params, every_combination

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

FINITE: frozenset[SamplerName] = frozenset({"grid", "brute_force"})
"""Samplers that propose every combination once, and then no more."""

ONE_SEED: frozenset[SamplerName] = frozenset({"qmc", "grid"})
"""Samplers whose batches are parts of one sequence, made from one seed."""

BY_GENERATION: frozenset[SamplerName] = frozenset({"nsga2", "nsga3", "cmaes"})
"""Samplers that make a generation from the one before."""

MOST_COMBINATIONS = 1_000_000
"""Combinations that a grid can have: as many as a study can have proposals."""


def sized(options: SamplerOptions, trials: int) -> SamplerOptions:
    """`options` with a population, where there is one, of which a study of `trials` proposals has several."""
    if options.name not in ("nsga2", "nsga3") or options.population is not None:
        return options
    return options.model_copy(update={"population": min(50, max(4, trials // 5))})


def default_batch(options: SamplerOptions, parameters: Sequence[Parameter], trials: int) -> int:
    """Proposals to make at once: a generation where there are some, few where each result tells the sampler much.

    trials: proposals of the whole study, most of which shall be made from results
    """
    if options.population is not None:
        return options.population
    if options.name == "cmaes":  # as cmaes itself: 4 + 3 ln d
        numbers = sum(parameter.kind != "categorical" for parameter in parameters)
        return 4 + math.floor(3 * math.log(max(1, numbers)))
    most = {"tpe": 20, "gp": 5}.get(options.name)
    return 100 if most is None else min(most, max(2, trials // 12))


def seed_of_batch(options: SamplerOptions, seed: int, batch: int) -> int:
    """The seed from which a sampler makes a batch, so that one does not depend on how far another came."""
    parts = [seed] if options.name in ONE_SEED else [seed, batch]
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


def distribution_of(parameter: Parameter) -> BaseDistribution:
    """The parameter as Optuna describes it: its ends and step are numbers that a config can hold."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.kind == "categorical":
        return CategoricalDistribution(parameter.choices)
    low, high = parameter.number(parameter.low), parameter.number(parameter.high)
    if parameter.step is None:
        made = IntDistribution if parameter.kind == "int" else FloatDistribution
        return made(low, high, log=parameter.log)
    step, top = parameter.number(parameter.step), parameter.nearest(_top(parameter))
    with warnings.catch_warnings():  # that the range is not divisible by the step, and ends before
        warnings.simplefilter("ignore", UserWarning)
        stepped = (IntDistribution if parameter.kind == "int" else FloatDistribution)(low, high, step=step)
    stepped.high = top
    return stepped


def _top(parameter: Parameter) -> float:
    assert parameter.step is not None
    return parameter.low + math.floor((parameter.high - parameter.low) / parameter.step + 1e-9) * parameter.step


def distributions_for(options: SamplerOptions, parameters: Sequence[Parameter]) -> dict[str, BaseDistribution]:
    """How a sampler is told the parameters, by name.

    Brute force compares values exactly, so that it is told the values themselves instead of ends and a step.
    """
    from optuna.distributions import CategoricalDistribution

    if options.name != "brute_force":
        return {parameter.name: distribution_of(parameter) for parameter in parameters}
    return {parameter.name: CategoricalDistribution(parameter.grid() or []) for parameter in parameters}


@lru_cache(maxsize=4)
def combinations(options: SamplerOptions, parameters: tuple[Parameter, ...]) -> tuple[Params, ...] | None:
    """All that a finite sampler can propose; None for the others.

    Raises ValueError where a parameter has no step, or there are more than MOST_COMBINATIONS.
    """
    if options.name not in FINITE:
        return None
    every = every_combination(parameters)
    if every is None:
        raise ValueError(f"sampler {options.name} needs a `step` or `choices` for every parameter")
    found = tuple(islice(every, MOST_COMBINATIONS + 1))
    if len(found) > MOST_COMBINATIONS:
        raise ValueError(
            f"sampler {options.name} would go through more than {MOST_COMBINATIONS:,} combinations: take larger "
            "steps, or `sampler: random`"
        )
    return found


def make_sampler(options: SamplerOptions, parameters: Sequence[Parameter], seed: int) -> BaseSampler:
    """A new sampler for one batch, whose numbers are those that a config can hold.

    While a batch is made nothing is told, so that what a sampler finds in finished proposals is found once.
    """
    from optuna.exceptions import ExperimentalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return _exact(_bare(options, parameters, seed), parameters)


def _bare(options: SamplerOptions, parameters: Sequence[Parameter], seed: int) -> BaseSampler:
    from optuna import samplers

    match options.name:
        case "tpe":
            conditional = any(parameter.when for parameter in parameters)
            startup = 10 if options.startup is None else options.startup
            # Without conditions Optuna's default stands: multivariate for one objective, not for several.
            grouped: dict[str, Any] = {"multivariate": True, "group": True} if conditional else {}
            return _tpe(n_startup_trials=startup, seed=seed, **grouped)
        case "nsga2":
            return _nsga(samplers.NSGAIISampler, population_size=options.population or 50, seed=seed)
        case "nsga3":
            return _nsga(samplers.NSGAIIISampler, population_size=options.population or 50, seed=seed)
        case "gp":
            startup = 10 if options.startup is None else options.startup
            return samplers.GPSampler(n_startup_trials=startup, seed=seed, warn_independent_sampling=False)
        case "cmaes":
            return _cmaes(options, parameters, seed)
        case "qmc":
            return _qmc(parameters, seed)
        case "grid":
            return _grid(options, parameters, seed)
        case "brute_force":
            return samplers.BruteForceSampler(seed=seed)
        case "random":
            return samplers.RandomSampler(seed=seed)


def first_generation(options: SamplerOptions) -> dict[str, int]:
    """What Optuna notes of a proposal of a genetic algorithm's first generation; nothing for other samplers."""
    from optuna.samplers import NSGAIIISampler, NSGAIISampler

    made = {"nsga2": NSGAIISampler, "nsga3": NSGAIIISampler}.get(options.name)
    return {} if made is None else {made._get_generation_key(): 0}


def _exact(inner: BaseSampler, parameters: Sequence[Parameter]) -> BaseSampler:
    """`inner` with every number replaced by the nearest that its parameter can take."""
    from optuna.samplers import BaseSampler

    numbers = {parameter.name: parameter for parameter in parameters if parameter.kind != "categorical"}

    def exact(name: str, value: Any) -> Any:
        return numbers[name].nearest(value) if name in numbers else value

    class Exact(BaseSampler):  # type: ignore[misc]
        def __init__(self) -> None:
            self._space: dict[str, Any] | None = None

        def before_trial(self, study: Any, trial: Any) -> None:
            inner.before_trial(study, trial)

        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            if self._space is None:
                self._space = inner.infer_relative_search_space(study, trial)
            return self._space

        def sample_relative(self, study: Any, trial: Any, search_space: Any) -> Any:
            found = inner.sample_relative(study, trial, search_space)
            return {name: exact(name, value) for name, value in found.items()}

        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            return exact(param_name, inner.sample_independent(study, trial, param_name, param_distribution))

    return Exact()


def _tpe(**options: Any) -> BaseSampler:
    """Optuna's TPE, which translates every trial for every proposal, and here does so once a batch."""
    from optuna.samplers import TPESampler

    class BatchTPE(TPESampler):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(**options)
            self._translated: dict[tuple[str, ...], dict[int, list[float] | None]] = {}

        def _get_internal_repr(self, trials: Any, search_space: Any, study: Any) -> dict[str, Any]:
            had = self._translated.setdefault(tuple(search_space), {})
            for trial in trials:
                if trial.number not in had:
                    params = self._get_params(trial, study)
                    complete = search_space.keys() <= params.keys()
                    had[trial.number] = (
                        [one.to_internal_repr(params[name]) for name, one in search_space.items()] if complete else None
                    )
            rows = [row for trial in trials if (row := had[trial.number]) is not None]
            columns = np.array(rows, dtype=np.float64).reshape(-1, len(search_space)).T
            return dict(zip(search_space, columns, strict=True))

    return BatchTPE()


def _nsga(made: Any, **options: Any) -> BaseSampler:
    """One of Optuna's genetic algorithms, which looks for generation and parents once a batch."""

    class BatchNsga(made):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(**options)
            self._generation: int | None = None
            self._parents: dict[int, Any] = {}

        def get_trial_generation(self, study: Any, trial: Any) -> int:
            if self._generation is None:
                self._generation = super().get_trial_generation(study, trial)
            study._storage.set_trial_system_attr(trial._trial_id, self._get_generation_key(), self._generation)
            return self._generation

        def get_parent_population(self, study: Any, generation: int) -> Any:
            if generation not in self._parents:
                self._parents[generation] = super().get_parent_population(study, generation)
            return self._parents[generation]

    BatchNsga._GENERATION_KEY = made._GENERATION_KEY
    BatchNsga._PARENT_CACHE_KEY_PREFIX = made._PARENT_CACHE_KEY_PREFIX
    return BatchNsga()


def _cmaes(options: SamplerOptions, parameters: Sequence[Parameter], seed: int) -> BaseSampler:
    """Optuna's CMA-ES, which knows no constraints, told what makes feasible proposals the better ones.

    It uses the order of values alone, so Deb's rule (doi:10.1016/S0045-7825(99)00389-8) can stand in the values:
    proposals that violate constraints follow the worst that does not, in the order of what they violate in all.
    """
    from optuna.samplers import CmaEsSampler
    from optuna.study import StudyDirection

    class FeasibleFirst(CmaEsSampler):  # type: ignore[misc]
        ranked: Any = None

        def _get_trials(self, study: Any) -> Any:
            if self.ranked is None:
                sign = 1.0 if study.direction == StudyDirection.MINIMIZE else -1.0
                self.ranked = _feasible_first(super()._get_trials(study), sign)
            return self.ranked

    return FeasibleFirst(
        n_startup_trials=1 if options.startup is None else options.startup,
        popsize=options.population,
        with_margin=any(one.kind == "int" or one.step is not None for one in parameters),
        warn_independent_sampling=False,
        seed=seed,
    )


def _feasible_first(trials: Sequence[Any], sign: float) -> list[Any]:
    """`trials` with values of those that violate constraints replaced; sign: 1 to minimise, -1 to maximise."""
    beyond = [sum(max(0.0, value) for value in trial.constraints.values()) for trial in trials]
    worst = max((sign * trial.value for trial, far in zip(trials, beyond, strict=True) if far == 0), default=0.0)
    found = []
    for trial, far in zip(trials, beyond, strict=True):
        ranked = copy(trial)
        if far > 0:
            ranked.values = [sign * (worst + far)]
        found.append(ranked)
    return found


def _qmc(parameters: Sequence[Parameter], seed: int) -> BaseSampler:
    """A scrambled Sobol sequence over all parameters, whichever of them a proposal has."""
    from optuna.samplers import QMCSampler

    space = {parameter.name: distribution_of(parameter) for parameter in parameters}

    class Sobol(QMCSampler):  # type: ignore[misc]
        def infer_relative_search_space(self, study: Any, trial: Any) -> Any:
            return {name: one for name, one in space.items() if not one.single()}

    return Sobol(scramble=True, seed=seed)


def _grid(options: SamplerOptions, parameters: Sequence[Parameter], seed: int) -> BaseSampler:
    """All combinations in random order, but for those that the study has already.

    Optuna's own sampler would try what differs in inactive parameters alone, and compares all grids at every result.
    """
    from optuna.samplers import BaseSampler

    every = combinations(options, tuple(parameters)) or ()
    order = np.random.default_rng(seed).permutation(len(every))

    class Grid(BaseSampler):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = (every[index] for index in order)
            self._had: set[tuple[tuple[str, Any], ...]] = set()
            self._read = 0
            self._chosen: Params = {}

        def before_trial(self, study: Any, trial: Any) -> None:
            trials = study.get_trials(deepcopy=False)[: trial.number]
            self._had.update(tuple(one.params.items()) for one in trials[self._read :])
            self._read = len(trials)
            known = trial.system_attrs.get("fixed_params", {})
            left = every if known else self._left
            self._chosen = next(one for one in left if _completes(one, known) and (known or not self._has(one)))

        def _has(self, one: Params) -> bool:
            return tuple(one.items()) in self._had

        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return {}

        def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
            return {}

        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            return self._chosen[param_name]

    return Grid()


def _completes(one: Params, known: Params) -> bool:
    return all(one.get(name, value) == value for name, value in known.items())
