"""What every sequence model can be told: its size, and how it is trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from models.config import MechanismConfig
from models.training import MOST_STEPS

Width = Annotated[int, Field(ge=1, le=8192, description="width d of the residual stream")]
Layers = Annotated[int, Field(ge=1, le=128, description="blocks, one after another")]
Heads = Annotated[int, Field(ge=1, le=256, description="heads")]
StateSize = Annotated[int, Field(ge=1, le=1024, description="state size S of a head")]


class SequenceConfig(MechanismConfig):
    """Options of every sequence model. AdamW (arXiv 1711.05101) with a constant rate after its warm-up."""

    width: Width = 64
    layers: Layers = 3
    positions: Literal["learned", "none"] = Field(
        "learned",
        description="what tells where a token stands; learned: a vector for each place, which says nothing of places "
        "that no training sequence has; none: nothing, as memories, recurrences and convolutions allow",
    )
    dropout: float = Field(0.1, ge=0.0, lt=1.0, description="share of activations that training drops")
    steps: int = Field(200, ge=0, le=MOST_STEPS, description="steps of gradient descent")
    batch: int = Field(32, ge=1, le=65536, description="sequences read at each step, new ones every time")
    learning_rate: float = Field(3e-4, gt=0.0, le=10.0, description="AdamW's rate")
    weight_decay: float = Field(0.01, ge=0.0, le=10.0, description="AdamW's decay of all parameters")
    warm_up: int = Field(0, ge=0, le=MOST_STEPS, description="steps over which the rate grows linearly from 0")
    first_length: int | None = Field(
        None, ge=1, description="length of the first training sequences; None: that of the workload"
    )
    growing_steps: int = Field(
        0, ge=0, le=MOST_STEPS, description="steps over which their length grows linearly to that of the workload"
    )

    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="of matrix products: in bfloat16 they are mixed with sums in 32 bits (autocast)"
    )
    evaluations: int = Field(
        1,
        ge=1,
        le=1000,
        description="times the model is evaluated in the course of training, the last at its end, "
        "those before on the first 512 sequences at most",
    )

    rates: ClassVar[tuple[str, ...]] = ("learning_rate",)
    """Fields in which models may differ that train as one."""

    @model_validator(mode="after")
    def _grows_from_somewhere(self) -> SequenceConfig:
        if (self.first_length is None) != (self.growing_steps == 0):
            raise ValueError(
                "`first_length` and `growing_steps` come together: from what length, and over how many steps"
            )
        return self

    def doubts(self, length: int, tested: int) -> Iterator[str]:
        """What is hardly meant of these settings; none of it stops a training.

        length, tested: ids of the sequences that are trained on, and of the longest that are tested
        """
        if not self.steps:
            return
        if tested > length and self.positions == "learned":
            yield (
                f"`positions: learned` for places up to {length:,}, and tests on up to {tested:,} ids: vectors of "
                "places beyond stay as they were drawn (`positions: none` has none)"
            )
        if self.warm_up > self.steps:
            yield f"`warm_up` {self.warm_up:,} of `steps` {self.steps:,}: `learning_rate` is never reached"
        if self.growing_steps > self.steps:
            yield (
                f"`growing_steps` {self.growing_steps:,} of `steps` {self.steps:,}: training never sees sequences as "
                f"long as those that are scored, {length:,} ids"
            )
        if self.evaluations > self.steps:
            yield f"`evaluations` {self.evaluations:,} of `steps` {self.steps:,}: there is one after each step, no more"

    def length_at(self, step: int, length: int) -> int:
        """Length of the training sequences of `step` (0 is the first), where the workload's are of `length`."""
        if self.first_length is None:
            return length
        grown = min(1.0, step / max(1, self.growing_steps - 1))
        return round(self.first_length + grown * (length - self.first_length))

    def rate_share(self, step: int) -> float:
        """The share of the learning rate that `step` (0 is the first) is taken with."""
        return min(1.0, (step + 1) / self.warm_up) if self.warm_up else 1.0
