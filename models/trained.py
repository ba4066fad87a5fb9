"""Mechanisms that learn: their parameters come from streams of the workload, before any stream is evaluated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.config import MechanismConfig
from models.mechanism import Mechanism, Trace
from models.stream import Stream

C = TypeVar("C", bound=MechanismConfig)

Array = NDArray[np.float32]
Parameters = dict[str, Array]

Streams = Callable[[int, int], Stream]
"""`streams(seed, n)`: the n-th training stream of a seed. None of them is ever evaluated."""

Init = Callable[[int], np.random.Generator]
"""`init(seed)`: where a seed's parameters, and the noise of its training, are drawn from."""

PARAMETER_BYTES = 4


@dataclass(frozen=True)
class Fitted:
    """What one seed has learned.

    parameters  arrays by name, in 32 bits
    metrics     numbers about the training and what came of it, among them `parameters`, how many there are
    series      numbers in the course of the training, at most 100 a name
    """

    parameters: Parameters
    metrics: dict[str, float]
    series: dict[str, list[float]] = field(default_factory=dict)


class TrainedMechanism(Mechanism[C]):
    """A mechanism whose parameters are learned from streams of its workload before it reads any.

    Every config is a group of its own. `use` comes before the first `start`.
    """

    trained: ClassVar[bool] = True
    batch_over: ClassVar[tuple[str, ...]] = ()
    own_metrics: ClassVar[tuple[str, ...]] = ("parameters", "training_loss")

    fitted: Fitted

    @classmethod
    @abstractmethod
    def fit(cls, config: C, seeds: Sequence[int], streams: Streams, init: Init) -> list[Fitted]:
        """What each of `seeds` learns. No seed's result depends on which others it is trained with.

        A seed whose training diverges has parameters that are not finite; the others do not notice.
        """

    def use(self, fitted: Fitted) -> None:
        """Take the parameters of the seed that is about to be evaluated.

        Raises FloatingPointError where its training diverged.
        """
        broken = [name for name, array in fitted.parameters.items() if not np.isfinite(array).all()]
        if broken:
            raise FloatingPointError(
                f"training diverged: {', '.join(broken)} not finite; a lower `learning_rate` may help"
            )
        self.fitted = fitted

    def bytes_fixed(self) -> int:
        """The parameters, 4 bytes each."""
        return PARAMETER_BYTES * count_parameters(self.fitted.parameters)

    @classmethod
    @abstractmethod
    def reference(
        cls, stream: Stream, config: C, rng: np.random.Generator, dtype: str = "float32", fitted: Fitted | None = None
    ) -> Trace:
        """The same rule with the parameters `fitted`, in float64, as one plain loop over one stream."""


def count_parameters(parameters: dict[str, Any]) -> int:
    """Numbers in all arrays of one seed."""
    return sum(int(array.size) for array in parameters.values())
