"""The seams that workloads meet: a config, and a function from (seed, episode) to a stream, or to sequences of ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from models.config import Config
from models.registry import Registry
from models.stream import Stream


class WorkloadConfig(Config):
    """Options every workload has: its name."""


W = TypeVar("W", bound=WorkloadConfig)


class AnyWorkload(ABC, Generic[W]):
    """What everything that stands under `workload:` has. One instance serves many seeds.

    Loading data happens once, in the constructor.
    """

    default_episodes: ClassVar[int] = 300
    """Episodes a trial averages over when the spec does not say: 1 where the stream is a recording."""

    has_lines: ClassVar[bool] = False
    """True where tokens are log lines, whose words streams carry."""

    makes_ids: ClassVar[bool] = False
    """True for workloads of sequence models, which read token ids; all others make streams of keys and values."""

    def __init__(self, config: W) -> None:
        self.config = config

    @classmethod
    def corpora(cls, config: W) -> tuple[str, ...]:
        """Names in `tasks.catalogue` of the public data that are read. Reads none."""
        return ()

    @classmethod
    @abstractmethod
    def tokens(cls, config: W) -> int:
        """Tokens in one stream (an upper bound where only the data tell), for estimates. Reads no data."""


class Workload(AnyWorkload[W]):
    """Makes streams of keys and values."""

    @abstractmethod
    def stream(self, seed: int, episode: int) -> Stream:
        """The stream of `episode` of a trial with `seed`: the same for every mechanism, batch, worker and order."""


WORKLOADS: Registry[AnyWorkload[Any]] = Registry("workload", "tasks.workloads", "slotsweep.workloads")
workload = WORKLOADS.register
