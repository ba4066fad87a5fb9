"""What every config of the project shares: strict fields, frozen values, one canonical form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

SIGNIFICANT_DIGITS = 12


def round_number(value: float) -> float:
    """`value` rounded to 12 significant digits, so that 1 - 0.7 is 0.3."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def round_numbers(tree: Any) -> Any:
    """A JSON tree with every float rounded to 12 significant digits."""
    if isinstance(tree, float):
        return round_number(tree)
    if isinstance(tree, dict):
        return {key: round_numbers(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [round_numbers(value) for value in tree]
    return tree


class Config(BaseModel):
    """A frozen, strict set of named options; the same values always give the same `identity()`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    derived_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields computed from the others: shown in results, absent from the identity."""

    name: str

    def identity(self) -> dict[str, Any]:
        """The JSON tree that stands for this config in a trial's key: every field, defaults included."""
        tree: dict[str, Any] = self.model_dump(mode="json", exclude=set(self.derived_fields))
        rounded: dict[str, Any] = round_numbers(tree)
        return rounded

    @classmethod
    def located(cls, field: str, value: Any, folder: Path) -> Any:
        """`value`, as `field` has it in a file that lies in `folder`, as it is meant from anywhere: paths absolute."""
        return value

    @classmethod
    def pinned(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """`fields` of a config with what tells of the files that they name as these are now, so that it can be kept."""
        return fields

    def flat(self) -> dict[str, Any]:
        """Every field but `name`, derived ones included, with numbers rounded: what a results table shows."""
        tree: dict[str, Any] = round_numbers(self.model_dump(mode="json"))
        return {key: value for key, value in tree.items() if key != "name"}


def canonical_json(tree: Any) -> str:
    """`tree` as JSON with sorted keys, no spaces and rounded numbers: equal trees give equal text."""
    return json.dumps(round_numbers(tree), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


MOST = 1_000_000_000
"""Upper limit of numbers of slots and tokens: more than any stream has, and far inside 64 bits."""

Temperature = Annotated[float, Field(ge=0.005, le=100.0)]
"""A softmax temperature in units of cosine. Below 0.005 float64 weights underflow: use `argmax` for the limit."""

ReadTemperature = Temperature | Literal["argmax"]


class MechanismConfig(Config):
    """Options every mechanism has: its name."""

    @property
    def leaks_future(self) -> bool:
        """Whether outputs depend on later tokens: then a loss at every position is no score of predictions."""
        return False


class SlotConfig(MechanismConfig):
    """Options every memory of slots has: how they are read."""

    temperature: ReadTemperature = Field(
        0.05, description="softmax temperature of the read, in units of cosine; `argmax` reads the single best slot"
    )

    @property
    def reading(self) -> float | Literal["argmax"]:
        """The temperature at which the slots are read."""
        return self.temperature
