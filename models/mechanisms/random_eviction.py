"""Random eviction: the control that knows nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from models.kernel import kernel
from models.mechanism import Trace, mechanism
from models.reference import arrivals
from models.similarity import Similarities
from models.stream import Floats, Ints, Stream
from models.token_memory import BudgetConfig, OnlineMemory, remove

if TYPE_CHECKING:
    from models.long.memory import LongMemory
    from models.long.stream import LongStream


class RandomEvictionConfig(BudgetConfig):
    """A uniform sample of `budget` of the tokens so far (reservoir sampling, Vitter 1985, Algorithm R)."""

    name: Literal["random_eviction"] = "random_eviction"


@mechanism(RandomEvictionConfig)
class RandomEviction(OnlineMemory[RandomEvictionConfig]):
    """Write O(1), read O(B d). After t tokens every set of min(t, B) of them is held with equal probability.

    One number a token is drawn beforehand, so budgets share them and the draw does not depend on what is batched.
    """

    seed_free: ClassVar[bool] = False
    compares_tokens: ClassVar[bool] = False
    reads_long: ClassVar[bool] = True

    def start(self, stream: Stream, rng: np.random.Generator) -> None:
        super().start(stream, rng)
        self.draws = rng.random(len(stream))

    def update(self, similarities: Similarities, start: int, stop: int) -> None:
        sample(self.draws[start:stop], start, stop, self.budget, self.slots.tokens)

    def long(self, stream: LongStream, rng: np.random.Generator) -> LongMemory[Any]:
        from models.long.tokens import LongSample

        return LongSample(self, stream, rng)

    @classmethod
    def reference(
        cls, stream: Stream, config: RandomEvictionConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        draws = rng.random(len(stream))
        trace = Trace()
        held: list[int] = []
        for t, phase_ends in arrivals(stream):
            leaving = int(draws[t] * (t + 1))
            if len(held) < config.budget:
                held.append(t)
            elif leaving < config.budget:
                del held[leaving]
                held.append(t)
            trace.count(len(held))
            if phase_ends:
                trace.record(held, stream)
        return trace


@kernel
def sample(draws: Floats, start: int, stop: int, budget: Ints, tokens: Ints) -> None:
    """Offer tokens start..stop-1 to C reservoirs `tokens` [C, cap]; `draws` [stop - start] are uniform in [0, 1)."""
    for c in range(len(budget)):
        for t in range(start, stop):
            if t < budget[c]:
                tokens[c, t] = t
                continue
            leaving = int(draws[t - start] * (t + 1))
            if leaving < budget[c]:
                remove(leaving, budget[c], tokens[c])
                tokens[c, budget[c] - 1] = t
