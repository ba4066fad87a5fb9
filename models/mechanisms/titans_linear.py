"""A Titans memory of one matrix: the delta rule with momentum and forgetting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from models.fixed_state import FixedState, one_hot, trace_states
from models.kernel import kernel
from models.mechanism import Trace, mechanism
from models.reference import unit_keys
from models.stream import Floats, Ints, Stream
from models.titans import TitansConfig, TitansMemory


class TitansLinearConfig(TitansConfig):
    """Gradient descent on |v - k S|^2 with momentum and forgetting (Titans, arXiv 2501.00663, Sec. 3.1).

    M = eta M - theta grad, then S = (1 - alpha) S + M: the original's linear memory. Kept: the surprise, as gradient
    and momentum, and the weight decay. Left out: the learned projections, the gates that make rates of tokens (they
    are constants here), descent in chunks of tokens, and the attention and the persistent memory around it. With `eta`
    0 and `alpha` 0 it is the delta rule with beta = 2 theta.
    """

    name: Literal["titans_linear"] = "titans_linear"


@mechanism(TitansLinearConfig)
class TitansLinear(TitansMemory[TitansLinearConfig], FixedState[TitansLinearConfig]):
    """Write O(d classes), read O(d classes), d rows, each with its momentum (none where `eta` is 0).

    Surprise is a gradient here, not a reason to allocate: the size never changes. Large theta / (1 - eta) diverges,
    which is told as a state that is not finite.
    """

    def update(self, features: Floats, values: Ints) -> None:
        descend(features, self.targets(values), self.rates, self.momenta, self.states)

    @classmethod
    def reference(
        cls, stream: Stream, config: TitansLinearConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        def states() -> Iterator[Floats]:
            state, momentum = np.zeros((2, stream.dim, stream.classes))
            for key, value in zip(unit_keys(stream, dtype), one_hot(stream), strict=True):
                gradient = -2.0 * np.outer(key, value - key @ state)
                momentum = config.eta * momentum - config.theta * gradient
                state = (1.0 - config.alpha) * state + momentum
                yield state

        return trace_states(stream, states())


@kernel
def descend(keys: Floats, targets: Floats, rates: Floats, momenta: Floats, states: Floats) -> None:
    """Write keys [b, rows] with `targets` [b, width] into C states and momenta [C, rows, width].

    rates [C, 3]: theta, eta, alpha.
    """
    rows, width = states.shape[1:]
    step = np.empty(width)
    for c in range(len(states)):
        theta, eta, kept = rates[c, 0], rates[c, 1], 1.0 - rates[c, 2]
        state, momentum = states[c], momenta[c]
        for t in range(len(keys)):
            step[:] = 0.0
            for i in range(rows):
                for k in range(width):
                    step[k] -= keys[t, i] * state[i, k]
            for k in range(width):
                step[k] = (step[k] + targets[t, k]) * (2.0 * theta)
            for i in range(rows):
                for k in range(width):
                    momentum[i, k] = eta * momentum[i, k] + keys[t, i] * step[k]
                    state[i, k] = kept * state[i, k] + momentum[i, k]
