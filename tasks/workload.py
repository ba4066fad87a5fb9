"""The seam every workload meets: a config and a function from (seed, episode) to a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from models.config import Config
from models.registry import Registry
from models.stream import Stream


class WorkloadConfig(Config):
    """Options every workload has: its name."""


W = TypeVar("W", bound=WorkloadConfig)


class Workload(ABC, Generic[W]):
    """Makes streams. One instance serves many seeds; loading data happens once, in the constructor."""

    default_episodes: ClassVar[int] = 300
    """Episodes a trial averages over when the spec does not say: 1 where the stream is a recording."""

    has_lines: ClassVar[bool] = False
    """True where tokens are log lines, whose words streams carry."""

    def __init__(self, config: W) -> None:
        self.config = config

    @abstractmethod
    def stream(self, seed: int, episode: int) -> Stream:
        """The stream of `episode` of a trial with `seed`: the same for every mechanism, batch, worker and order."""

    @classmethod
    @abstractmethod
    def tokens(cls, config: W) -> int:
        """Tokens in one stream (an upper bound where only the data tell), for estimates. Reads no data."""


WORKLOADS: Registry[Workload[Any]] = Registry("workload", "tasks.workloads", "slotsweep.workloads")
workload = WORKLOADS.register
