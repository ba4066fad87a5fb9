"""Which proposals are worth more seeds: those that a test, paired by seed, cannot tell from the best."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.stream import Floats
from tasks.search import Goal

Metrics = Mapping[str, Mapping[int, float]]
"""Values by metric and seed."""


def looks(first: int, seeds: int) -> list[int]:
    """Numbers of seeds at which proposals are compared: `first`, its double, ..., up to all `seeds`."""
    found = [min(first, seeds)]
    while found[-1] < seeds:
        found.append(min(2 * found[-1], seeds))
    return found


@dataclass(frozen=True)
class Race:
    """Stops a proposal that is worse than another one, by Wilcoxon's signed-rank test over common seeds.

    It is stopped where a feasible rival is better in every objective, each with a one-sided p below `p`, or where there
    is a feasible rival and its own metrics are beyond a bound with such a p. As in Optuna's WilcoxonPruner, which knows
    one objective and no bounds, differences of 0 count half, and a rival with the worse mean stops nobody.
    """

    goal: Goal
    p: float

    def stops(self, candidate: Metrics, rivals: Sequence[Metrics], seeds: Sequence[int]) -> bool:
        """Whether `candidate`, known on `seeds`, cannot well be the best beside `rivals`, which are known there too."""
        feasible = [rival for rival in rivals if self.goal.keeps(rival)]
        if not feasible:
            return False
        if any(self._positive(excess) for excess in self._excesses(candidate, seeds)):
            return True
        mine = self.goal.losses(candidate, seeds)
        return any(self._all_positive(mine - self.goal.losses(rival, seeds)) for rival in feasible)

    def _excesses(self, metrics: Metrics, seeds: Sequence[int]) -> list[Floats]:
        """How far each seed's metrics are beyond each bound."""
        found: list[Floats] = []
        for name, bound in self.goal.constraints.items():
            beyond = [bound.violations(metrics[name][seed]) for seed in seeds]
            found += [np.array([each[end] for each in beyond]) for end in beyond[0]]
        return found

    def _all_positive(self, differences: Floats) -> bool:
        return all(self._positive(column) for column in differences.T)

    def _positive(self, differences: Floats) -> bool:
        """Whether the centre of `differences` is above 0 for sure."""
        return float(differences.mean()) > 0 and signed_rank_p(differences) < self.p


def signed_rank_p(differences: Floats) -> float:
    """One-sided p of Wilcoxon's signed-rank test that the centre of `differences` [n] is above 0; zeros count half."""
    from scipy.stats import wilcoxon

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a sample too small for the normal approximation, which ties call for
        return float(wilcoxon(differences, alternative="greater", zero_method="zsplit").pvalue)
