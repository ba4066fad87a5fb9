"""A small fixed set of workloads and mechanisms, so that what these tests expect does not change with every new one."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pytest
from pydantic import Field, model_validator

from models.config import Config, SlotConfig, round_number
from models.mechanism import MECHANISMS
from tasks.workload import WORKLOADS, WorkloadConfig


class RecallConfig(WorkloadConfig):
    name: Literal["associative_recall"] = "associative_recall"
    items: int = Field(64, ge=1, description="distinct items K")
    repeats: int = Field(4, ge=1, description="tokens of each item")
    noise: float = Field(0.3, ge=0.0, description="expected length of the noise")
    shuffled: bool = Field(True, description="tokens in random order")
    drift: dict[str, float] = Field(default_factory=dict, description="speed of each drifting item")


class FileConfig(WorkloadConfig):
    name: Literal["recording"] = "recording"
    path: str = Field(description="file of the recording")
    columns: tuple[int, ...] = Field((0, 1), description="columns to read")


class FullConfig(SlotConfig):
    name: Literal["full_attention"] = "full_attention"


class CacheConfig(SlotConfig):
    derived_fields: ClassVar[frozenset[str]] = frozenset({"similarity"})

    name: Literal["dp_cache"] = "dp_cache"
    tau: float = Field(0.4, ge=-2.0, le=3.0, description="novelty threshold")
    similarity: float = Field(0.6, ge=-2.0, le=3.0, description="1 - tau")
    keep: Literal["first", "last", "majority"] = Field("first", description="value kept when a token merges")
    cap: int | None = Field(None, ge=1, description="most slots kept")

    @model_validator(mode="before")
    @classmethod
    def _one_threshold(cls, data: Any) -> Any:
        if "tau" in data and "similarity" in data:
            raise ValueError("`tau` and `similarity` = 1 - tau are one threshold: give one of them")
        for given, other in (("tau", "similarity"), ("similarity", "tau")):
            if isinstance(data.get(given), int | float):
                return {**data, other: round_number(1.0 - data[given])}
        return data


class HitterConfig(SlotConfig):
    name: Literal["h2o"] = "h2o"
    budget: int = Field(ge=0, description="most slots kept")
    window: int = Field(0, ge=0, description="newest slots that are never evicted")

    @model_validator(mode="after")
    def _window_fits(self) -> HitterConfig:
        if self.window > self.budget:
            raise ValueError("`window` is larger than `budget`")
        return self


class Plain:
    """What reading a spec asks of workloads and mechanisms."""

    has_lines = makes_ids = reads_ids = may_be_long = reads_long = trained = False
    makes_streams = alike = True
    own_metrics = ()
    reads_lines = False


def _entries(*classes: type[Config]) -> dict[str, tuple[type[Config], type[object]]]:
    return {str(one.model_fields["name"].default): (one, Plain) for one in classes}


@pytest.fixture
def fixed_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the workloads and mechanisms of this file."""
    for registry, classes in (
        (WORKLOADS, (RecallConfig, FileConfig)),
        (MECHANISMS, (FullConfig, CacheConfig, HitterConfig)),
    ):
        monkeypatch.setattr(registry, "_entries", _entries(*classes))
        monkeypatch.setattr(registry, "_scanned", True)
