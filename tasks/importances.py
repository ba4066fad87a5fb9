"""Which parameters of a study decide how good a proposal is: PED-ANOVA, by Optuna."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasks.search import Goal, Parameter, Proposal, may_be_best

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

LEAST_PROPOSALS = 20
"""Fewer have fewer than two among the best tenth."""


def importances(parameters: Sequence[Parameter], proposals: Sequence[Proposal], goal: Goal) -> dict[str, float] | None:
    """How much each parameter decides whether a proposal is among the best tenth; they add up to 1.

    By how far a parameter's values among the best differ from those among all (PED-ANOVA, Watanabe et al. 2023), of the
    complete and feasible proposals. With several objectives the best are those nearest to the Pareto front. None where
    there are too few to tell.
    """
    import optuna

    counted = [one for one in proposals if may_be_best(one, goal)]
    if len(counted) < LEAST_PROPOSALS:
        return None
    distributions = {parameter.name: distribution_of(parameter) for parameter in parameters}
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(directions=goal.directions)
    finally:
        optuna.logging.set_verbosity(verbosity)
    study.add_trials(
        optuna.trial.create_trial(
            params=one.params,
            distributions={name: distributions[name] for name in one.params},
            values=goal.values(one.metrics),
        )
        for one in counted
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of conditional parameters that few of the proposals have
        found = optuna.importance.get_param_importances(study)
    return {parameter.name: float(found.get(parameter.name, 0.0)) for parameter in parameters}


def distribution_of(parameter: Parameter) -> BaseDistribution:
    """What a parameter is to Optuna."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.kind == "categorical":
        return CategoricalDistribution(parameter.choices)
    if parameter.kind == "int":
        return IntDistribution(int(parameter.low), int(parameter.high), parameter.log, int(parameter.step or 1))
    return FloatDistribution(parameter.low, parameter.high, parameter.log, parameter.step)
