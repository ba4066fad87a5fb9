"""A study in memory: Optuna asked for proposals and told results, and made again from what was stored of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.tuner.quiet import quiet_optuna
from orchestrator.tuner.samplers import (
    combinations,
    distributions_for,
    first_generation,
    make_sampler,
    seed_of_batch,
)
from tasks.kinds.tuning import Levels, SamplerOptions
from tasks.search import Goal, Parameter, Params, ProposalState

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.storages import InMemoryStorage
    from optuna.trial import FrozenTrial

Attributes = dict[str, dict[str, Any]]
"""What a sampler noted when it made a proposal, as JSON: of the `proposal`, and of the `study`."""


@dataclass(frozen=True)
class Asked:
    """A proposal: the parameters that are active, in order, and what its sampler must be told if made again."""

    number: int
    params: Params
    attributes: Attributes


@dataclass(frozen=True)
class Told:
    """What became of a proposal.

    values        of the objectives; None: it failed, or was stopped by a pruner over levels
    violations    by constraint, at most 0 where it holds
    stopped       by that pruner: the last of the values by level stands for the objective
    """

    values: Sequence[float] | None = None
    violations: Mapping[str, float] = field(default_factory=dict)
    stopped: bool = False


def told_of(state: ProposalState, metrics: Mapping[str, Mapping[int, float]], goal: Goal, *, by_level: bool) -> Told:
    """What is told of a decided proposal with these `metrics`. by_level: whether a pruner over levels stops any."""
    if state == "failed":
        return Told()
    if by_level and state == "stopped":
        return Told(stopped=True)
    return Told(goal.values(metrics), goal.violations(metrics))


@dataclass(frozen=True)
class Stored:
    """A proposal as it was stored: asked, told (None: still open), and its values by level of a pruner."""

    params: Params
    attributes: Attributes
    told: Told | None = None
    by_level: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Known:
    """A result of an earlier study to begin with."""

    params: Params
    values: Sequence[float]
    violations: Mapping[str, float] = field(default_factory=dict)


class LiveStudy:
    """One study. A batch follows from the seed, its number and what was told before, in whatever process it is asked.

    Known results and points come first, before anything is asked or restored: `warm_start`, then `enqueue`. Proposals
    are numbered from 0, those of known results not counted.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        goal: Goal,
        options: SamplerOptions,
        seed: int,
        *,
        pruner: Levels | None = None,
    ) -> None:
        import optuna

        quiet_optuna()
        self._parameters = tuple(parameters)
        self._options = options
        self._seed = seed
        self._levels = pruner
        self._distributions = distributions_for(options, parameters)
        self._combinations = combinations(options, self._parameters)
        self._storage, self._noted = _noting_storage()
        self._study = optuna.create_study(
            storage=self._storage,
            directions=goal.directions,
            study_name=f"seed {seed}",  # by which Hyperband chooses brackets
            pruner=_pruner(pruner) if pruner else None,
        )
        if isinstance(self._study.pruner, optuna.pruners.HyperbandPruner):
            self._study.pruner._try_initialization(self._study)  # else it has one bracket until it is first asked
        self._known_results = 0
        self._known_points: list[Params] = []
        self._asked = 0
        self._had: set[tuple[tuple[str, Any], ...]] = set()

    def warm_start(self, results: Iterable[Known]) -> int:
        """Begin with those of `results` that this study could have had; return how many they are.

        For genetic algorithms they are the first generation.
        """
        from optuna.trial import create_trial

        fitting = [one for one in results if self._fits(one.params)]
        for one in fitting:
            params = self._in_order(one.params)
            trial = create_trial(
                params=params,
                distributions={name: self._distributions[name] for name in params},
                values=list(one.values),
                constraints=dict(one.violations),
                system_attrs=first_generation(self._options),
            )
            self._study.add_trial(trial)
        self._known_results += len(fitting)
        return len(fitting)

    def enqueue(self, points: Iterable[Params]) -> None:
        """Let known points be the first proposals; what they leave open is proposed.

        Raises ValueError where a value is not one that the study can propose.
        """
        for point in points:
            for name, value in point.items():
                if name not in self._distributions:
                    raise ValueError(f"`enqueue`: `{name}` is not searched")
                if not self._takes(name, value):
                    raise ValueError(f"`enqueue`: `{name}` cannot be {value!r}: {self._distributions[name]}")
            self._known_points.append(dict(point))

    def ask(self, count: int, batch: int) -> list[Asked]:
        """The next `count` proposals, those of batch `batch`; fewer where every combination has been proposed."""
        self._study.sampler = make_sampler(
            self._options, self._parameters, seed_of_batch(self._options, self._seed, batch)
        )
        asked: list[Asked] = []
        while len(asked) < count and not self._is_exhausted():
            asked.append(self._ask())
        return asked

    def tell(self, number: int, told: Told, by_level: Mapping[int, float] | None = None) -> None:
        """Let the study know what became of proposal `number`, and its values by level where it has any."""
        from optuna.study._constrained_optimization import _CONSTRAINTS_KEY
        from optuna.trial import TrialState

        trial = self._known_results + number
        for level, value in (by_level or {}).items():
            self._report(trial, level, value)
        for name, beyond in told.violations.items():
            self._storage.set_trial_system_attr(trial, f"{_CONSTRAINTS_KEY}:{name}", float(beyond))
        values, state = told.values, TrialState.COMPLETE
        if told.stopped:
            intermediate = self._storage.get_trial(trial).intermediate_values
            values, state = [intermediate[max(intermediate)]], TrialState.PRUNED
        elif values is None:
            state = TrialState.FAIL
        # Not through `Study.tell`: it copies every trial it is told of, which takes longer than a random proposal.
        self._storage.set_trial_state_values(trial, state, None if values is None else [float(one) for one in values])

    def stopped(self, level: int, values: Mapping[int, float]) -> set[int]:
        """Which of the proposals with these `values` of the objective at `level` (from 0) are not worth the next level.

        Halving keeps the best of all that have come to a rung, these included: Optuna's own judges each by those that
        came before it, and so promotes the first whatever its value.
        """
        stopped = {number for number, value in values.items() if self._pruned(number, level, value)}
        return {number for number in values if self._is_behind(number, level)} if self._halves else stopped

    def _pruned(self, number: int, level: int, value: float) -> bool:
        """What the pruner says; pruners that halve note the rung that the proposal has come to."""
        trial = self._known_results + number
        self._report(trial, level, value)
        return bool(self._study.pruner.prune(self._study, self._storage.get_trial(trial)))

    def _is_behind(self, number: int, level: int) -> bool:
        """Whether a proposal is not among the share of its rung's that is kept; its bracket may have no rung here."""
        from optuna.pruners._successive_halving import _completed_rung_key, _get_current_rung
        from optuna.study import StudyDirection

        assert self._levels is not None
        trial = self._storage.get_trial(self._known_results + number)
        bracket = self._bracket(trial)
        if level < bracket:
            return False
        rung = _completed_rung_key(_get_current_rung(trial) - 1)
        trials = self._study.get_trials(deepcopy=False)
        peers = [one.system_attrs[rung] for one in trials if rung in one.system_attrs and self._bracket(one) == bracket]
        peers.sort(reverse=self._study.direction == StudyDirection.MAXIMIZE)
        border, value = peers[max(1, len(peers) // self._levels.reduction) - 1], trial.system_attrs[rung]
        return bool(value < border if self._study.direction == StudyDirection.MAXIMIZE else value > border)

    def _bracket(self, trial: FrozenTrial) -> int:
        """The bracket of Hyperband that a proposal is in: the level at which its first rung is."""
        from optuna.pruners import HyperbandPruner

        pruner = self._study.pruner
        return int(pruner._get_bracket_id(self._study, trial)) if isinstance(pruner, HyperbandPruner) else 0

    @property
    def _halves(self) -> bool:
        return self._levels is not None and self._levels.name in ("successive_halving", "hyperband")

    def restore(self, stored: Sequence[Stored]) -> None:
        """Ask and tell again what an earlier process asked and told, so that what follows is what it would have had."""
        from optuna.trial import TrialState, create_trial

        for one in stored:
            params = self._in_order(one.params)
            self._study.add_trial(
                create_trial(
                    state=TrialState.RUNNING,
                    params=params,
                    distributions={name: self._distributions[name] for name in params},
                    system_attrs=one.attributes["proposal"],
                )
            )
            for name, value in one.attributes["study"].items():
                self._storage.set_study_system_attr(self._study._study_id, name, value)
            self._had.add(tuple(params.items()))
        for number, one in enumerate(stored, start=self._asked):
            for level, value in sorted(one.by_level.items()):
                self._pruned(number, level, value)
            if one.told is not None:
                self.tell(number, one.told)
        self._asked += len(stored)

    def _ask(self) -> Asked:
        self._noted.clear()
        if self._asked < len(self._known_points):
            self._study.enqueue_trial(self._known_points[self._asked])
        trial = self._study.ask()
        params: Params = {}
        for parameter in self._parameters:
            if parameter.is_active(params):
                params[parameter.name] = trial._suggest(parameter.name, self._distributions[parameter.name])
        self._had.add(tuple(params.items()))
        self._asked += 1
        attributes = {"proposal": self._storage.get_trial(trial._trial_id).system_attrs, "study": dict(self._noted)}
        return Asked(self._asked - 1, params, attributes)

    def _report(self, trial: int, level: int, value: float) -> None:
        """Rungs of successive halving are at powers of its reduction, and levels are its rungs."""
        step = self._levels.reduction**level if self._levels and self._halves else level
        self._storage.set_trial_intermediate_value(trial, step, float(value))

    def _is_exhausted(self) -> bool:
        return self._combinations is not None and len(self._had) >= len(self._combinations)

    def _in_order(self, params: Params) -> Params:
        return {one.name: params[one.name] for one in self._parameters if one.name in params}

    def _fits(self, params: Params) -> bool:
        """Whether `params` are those that are active, each in its range."""
        active = [one.name for one in self._parameters if one.is_active(params)]
        return set(active) == set(params) and all(self._takes(name, params[name]) for name in active)

    def _takes(self, name: str, value: Any) -> bool:
        distribution = self._distributions[name]
        try:
            return bool(distribution._contains(distribution.to_internal_repr(value)))
        except (ValueError, TypeError):
            return False


def _noting_storage() -> tuple[InMemoryStorage, dict[str, Any]]:
    """A storage, and what samplers note in it of the study since the dictionary was last cleared."""
    from optuna.storages import InMemoryStorage

    noted: dict[str, Any] = {}

    class Noting(InMemoryStorage):  # type: ignore[misc]
        def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
            super().set_study_system_attr(study_id, key, value)
            noted[key] = value

    return Noting(), noted


def _pruner(levels: Levels) -> BasePruner:
    from optuna import pruners

    match levels.name:
        case "median":
            return pruners.MedianPruner()
        case "percentile":
            return pruners.PercentilePruner(levels.percentile)
        case "successive_halving":
            return pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=levels.reduction)
        case "hyperband":
            longest = levels.reduction ** (len(levels.levels) - 1)
            return pruners.HyperbandPruner(1, longest, levels.reduction)
