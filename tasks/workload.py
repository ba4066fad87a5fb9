"""The seams that workloads meet: a config, and a function from (seed, episode) to a stream, or to sequences of ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar

from models.config import Config
from models.long.stream import LongStream
from models.registry import Registry
from models.stream import Stream, StreamError


class WorkloadConfig(Config):
    """Options every workload has: its name."""

    def doubts(self) -> Iterator[str]:
        """What is hardly meant of these settings; none of it stops a trial."""
        return iter(())


LONGEST_STREAM = 1 << 16
"""Tokens of a stream that is read in memory at most; a longer one is read in chunks."""

W = TypeVar("W", bound=WorkloadConfig)


class AnyWorkload(ABC, Generic[W]):
    """What everything that stands under `workload:` has. One instance serves many seeds.

    Loading data happens once, in the constructor.
    """

    default_episodes: ClassVar[int] = 300
    """Episodes a trial averages over when the spec does not say: 1 where the stream is a recording."""

    alike: ClassVar[bool] = True
    """Whether streams of one config are of one length and ask at the same tokens, which memories that are trained on
    streams need."""

    has_lines: ClassVar[bool] = False
    """True where tokens are log lines, whose words streams carry."""

    may_be_long: ClassVar[bool] = False
    """True where a config may make streams longer than is read in memory: see `is_long`."""

    own_metrics: ClassVar[tuple[str, ...]] = ()
    """Names of the metrics that it adds to those of a mechanism, of some mechanisms at least."""

    makes_ids: ClassVar[bool] = False
    """Whether it makes token ids, which sequence models read."""

    makes_streams: ClassVar[bool] = False
    """Whether it makes streams of keys and values, which all other mechanisms read. One may make both."""

    def __init__(self, config: W) -> None:
        self.config = config

    @classmethod
    def corpora(cls, config: W) -> tuple[str, ...]:
        """Names in `tasks.catalogue` of the public data that are read. Reads none."""
        return ()

    @classmethod
    def is_long(cls, config: W) -> bool:
        """Whether streams are longer than is read in memory: then they come in chunks, by `long_stream`."""
        return False

    @classmethod
    def cpu_alone(cls, config: W) -> str | None:
        """Why only the CPU reads such streams; None where other devices do, too."""
        if cls.is_long(config):
            return f"streams of more than {LONGEST_STREAM:,} tokens are read in chunks, which the CPU alone does"
        return None

    @classmethod
    @abstractmethod
    def tokens(cls, config: W) -> int:
        """Tokens in one stream (an upper bound where only the data tell), for estimates. Reads no data."""

    @classmethod
    def width(cls, config: W) -> int:
        """Numbers in a token's key, for estimates; of ids, 1. Reads no data."""
        return int(getattr(config, "dim", 1))


class Workload(AnyWorkload[W]):
    """Makes streams of keys and values."""

    makes_streams: ClassVar[bool] = True

    @abstractmethod
    def stream(self, seed: int, episode: int) -> Stream:
        """The stream of `episode` of a trial with `seed`: the same for every mechanism, batch, worker and order.

        Raises StreamError where it `is_long`.
        """

    def long_stream(self, seed: int, episode: int) -> LongStream:
        """The same stream where it `is_long`: its tokens come in chunks."""
        raise StreamError(f"`{self.config.name}` makes no streams that are read in chunks")


WORKLOADS: Registry[AnyWorkload[Any]] = Registry("workload", "tasks.workloads", "slotsweep.workloads")
workload = WORKLOADS.register
