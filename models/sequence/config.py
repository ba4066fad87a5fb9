"""What every sequence model can be told: its size, and how it is trained."""

from __future__ import annotations

from typing import Annotated, ClassVar

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

    rates: ClassVar[tuple[str, ...]] = ("learning_rate",)
    """Fields in which models may differ that train as one."""

    @model_validator(mode="after")
    def _grows_from_somewhere(self) -> SequenceConfig:
        if (self.first_length is None) != (self.growing_steps == 0):
            raise ValueError("`first_length` and `growing_steps` come together: from what length, and over how many steps")
        return self

    @property
    def leaks_future(self) -> bool:
        """Whether outputs depend on later tokens: then a loss at every position is no score of predictions."""
        return False
