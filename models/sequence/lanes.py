"""Lanes: S models of one shape, one for each of S seeds, that are computed as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from torch import Generator, bfloat16, empty, float32, ones, randint, stack, zeros
from torch.nn.functional import gelu

from models.sequence.activation import gelu_dropped
from models.sequence.dropout import dropped

if TYPE_CHECKING:
    from torch import Tensor, device

STD = 0.02
"""Standard deviation of the weights that training starts from (arXiv 2606.05175; released code)."""


class Lanes:
    """The generators of S lanes. Everything that is drawn has the lanes as its first dimension.

    What a lane draws depends on its own seeds alone: neither on the other lanes nor on how many there are. Parameters
    are drawn on the CPU, so that training starts from the same ones on every device; noise is drawn where it is used.
    """

    def __init__(self, seeds: Sequence[tuple[int, int]], place: device | str = "cpu") -> None:
        """seeds: of each lane, that of its parameters and that of its noise; place: the device of the models."""
        self.place = place
        self._parameters = [Generator().manual_seed(parameters) for parameters, _ in seeds]
        self._noise = [Generator(device=place).manual_seed(noise) for _, noise in seeds]

    def __len__(self) -> int:
        return len(self._noise)

    def normal(self, *shape: int, std: float = STD) -> Tensor:
        """Normal numbers [S, *shape] to begin with."""
        return stack([empty(shape).normal_(0.0, std, generator=g) for g in self._parameters]).to(self.place)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Uniform numbers [S, *shape] to begin with."""
        return stack([empty(shape).uniform_(low, high, generator=g) for g in self._parameters]).to(self.place)

    def zeros(self, *shape: int) -> Tensor:
        """Zeros [S, *shape]."""
        return zeros(len(self), *shape, device=self.place)

    def ones(self, *shape: int) -> Tensor:
        """Ones [S, *shape]."""
        return ones(len(self), *shape, device=self.place)

    def dropped(self, x: Tensor, share: float) -> Tensor:
        """x [S, ...] with a random `share` of its numbers set to 0, and the others scaled by 1 / (1 - share)."""
        if x.device.type == "cpu" and x.dtype != bfloat16:
            return dropped(x, share, self._drawn())
        kept = empty(x.shape, dtype=x.dtype, device=x.device)
        for lane, generator in zip(kept, self._noise, strict=True):
            lane.bernoulli_(1.0 - share, generator=generator)
        return x * kept.div_(1.0 - share)

    def gelu_dropped(self, x: Tensor, share: float) -> Tensor:
        """The same of GELU(x)."""
        if x.device.type == "cpu" and x.dtype == float32:
            return gelu_dropped(x, share, self._drawn())
        return self.dropped(gelu(x), share)

    def _drawn(self) -> list[int]:
        """32 bits of each lane's noise."""
        return [int(randint(2**32, (), generator=each)) for each in self._noise]

    def state(self) -> list[Tensor]:
        """Where the noise stands, for `resume`."""
        return [generator.get_state() for generator in self._noise]

    def resume(self, states: Iterable[Tensor]) -> None:
        """Go on where `states` says."""
        for generator, state in zip(self._noise, states, strict=True):
            generator.set_state(state)
