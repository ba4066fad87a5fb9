"""What the delta rule and its gated form share: one update, one kernel, one reference."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TypeVar

import numpy as np

from models.config import MechanismConfig
from models.fixed_state import FixedState, one_hot, trace_states
from models.kernel import kernel
from models.mechanism import Trace
from models.reference import unit_keys
from models.stream import Floats, Ints, Stream

C = TypeVar("C", bound=MechanismConfig)


class DeltaState(FixedState[C]):
    """States that follow S = alpha S, then S += beta k (v - k S), which is alpha (I - beta k k') S + beta k v."""

    @abstractmethod
    def rates(self, config: C) -> tuple[float, float]:
        """(alpha, beta)."""

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        """Forget everything."""
        super().start(stream, rng)
        self.alpha, self.beta = np.array([self.rates(config) for config in self.configs]).T.copy()

    def update(self, features: Floats, values: Ints) -> None:
        """Correct the states token by token."""
        correct(features, self.targets(values), self.alpha, self.beta, self.states)


@kernel
def correct(keys: Floats, targets: Floats, alpha: Floats, beta: Floats, states: Floats) -> None:
    """Write keys [b, rows] with `targets` [b, width] into C states [C, rows, width] by the gated delta rule.

    The loops over the width are innermost, where they vectorise.
    """
    rows, width = states.shape[1:]
    error = np.empty(width)
    for c in range(len(states)):
        state = states[c]
        for t in range(len(keys)):
            error[:] = 0.0
            for i in range(rows):
                for k in range(width):
                    error[k] -= keys[t, i] * state[i, k]
            for k in range(width):
                error[k] = error[k] * (alpha[c] * beta[c]) + beta[c] * targets[t, k]
            for i in range(rows):
                for k in range(width):
                    state[i, k] = alpha[c] * state[i, k] + keys[t, i] * error[k]


def reference_delta(stream: Stream, alpha: float, beta: float, dtype: str) -> Trace:
    """The same rule as a plain loop."""

    def states() -> Iterator[Floats]:
        state = np.zeros((stream.dim, stream.classes))
        for key, value in zip(unit_keys(stream, dtype), one_hot(stream), strict=True):
            state = alpha * state
            state = state + beta * np.outer(key, value - key @ state)
            yield state

    return trace_states(stream, states())
