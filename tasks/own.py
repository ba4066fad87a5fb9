"""Workloads of a user's own occurrences: what streams are made of them, in memory or in chunks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from models.config import MOST
from models.long.stream import Chunk, LongStream
from models.stream import Phase, Stream, StreamError
from tasks.keys import Dim, Noise, QueryNoise, noisy
from tasks.seeds import generator
from tasks.tables.columns import Table, TableError, Wanted
from tasks.tables.occurrences import Hashed, Labels, Listed, Marks, Occurrences, answers_of, occurrences
from tasks.tables.vectors import HashedVectors, Vectors, read_vectors, width_in
from tasks.text.source import FilesConfig, Sha256, known, unchanged
from tasks.workload import LONGEST_STREAM, Workload, WorkloadConfig

DEFAULT_DIM = 64
DEFAULT_CLASSES = 16

MOST_QUERIES = 100_000
"""Queries of a phase at most: of more items so many are asked for, drawn by seed."""

Classes = Annotated[
    int | None,
    Field(
        ge=1,
        le=MOST,
        description="classes that values are hashed into (CRC-32), or keys where no column has values (then 16 by "
        "default); by default each distinct value is a class",
    ),
]

Events = Annotated[int | None, Field(ge=1, le=MOST, description="tokens: the first so many; all by default")]

Answer = Annotated[
    Literal["last", "first"],
    Field(description="right answer for an item whose value changes: the one it came with last, or first"),
]


class OwnConfig(WorkloadConfig):
    """Options of streams of a user's own items, whose vectors are hashed or given; only noise is drawn by seed."""

    dim: Dim | None = Field(None, description="width d of hashed keys, 64 by default; given vectors have their own")
    noise: Noise = 0.3
    query_noise: QueryNoise = 0.0
    answer: Answer = "last"


O = TypeVar("O", bound=OwnConfig)  # noqa: E741


class OwnWorkload(Workload[O]):
    """Occurrences of items as a stream. One phase, the whole, asks once for every item, and all queries count.

    An item's key is a unit vector that no seed changes, and `noise` on it, which a seed draws. Of more than 100,000
    items so many are asked for, drawn by seed. Chance is the probability that two of the distinct items have the same
    answer. Held are 16 bytes an item beside the queries; the tokens are made as they are read.
    """

    default_episodes: ClassVar[int] = 1
    may_be_long: ClassVar[bool] = True

    def __init__(self, config: O) -> None:
        super().__init__(config)
        self._found, self._vectors = self.read()
        self._answers = answers_of(self._found, config.answer)
        shares = np.bincount(self._answers) / len(self._answers)
        self._chance = float(shares @ shares)

    @abstractmethod
    def read(self) -> tuple[Occurrences, Vectors]:
        """What the config names."""

    @classmethod
    def is_long(cls, config: O) -> bool:
        return cls.tokens(config) > LONGEST_STREAM

    @classmethod
    def width(cls, config: O) -> int:
        return config.dim or DEFAULT_DIM

    def stream(self, seed: int, episode: int) -> Stream:
        if self.is_long(self.config):
            raise StreamError(
                f"a stream of {len(self._found):,} tokens is read in chunks, as any of more than {LONGEST_STREAM:,}: "
                "set `events`, or take a job type that reads chunks"
            )
        return self._stream(seed, episode).whole()

    def long_stream(self, seed: int, episode: int) -> LongStream:
        return self._stream(seed, episode) if self.is_long(self.config) else super().long_stream(seed, episode)

    def _stream(self, seed: int, episode: int) -> LongStream:
        found, config = self._found, self.config
        asked = np.arange(len(found.marks))
        if len(asked) > MOST_QUERIES:
            draw = generator(seed, "asked", episode)
            asked = np.sort(draw.choice(len(asked), MOST_QUERIES, replace=False))
        queries = noisy(self._vectors.of(found.marks[asked]), config.query_noise, generator(seed, "queries", episode))
        phase = Phase(len(found), queries, self._answers[asked], asked, np.arange(len(asked)))

        def make(size: int) -> Iterator[Chunk]:
            rng = generator(seed, "stream", episode)
            for items, values in found.parts(size):
                yield Chunk(noisy(self._vectors.of(found.marks[items]), config.noise, rng), values, items)

        dim, distinct = self._vectors.dim, (len(found.marks),)
        return LongStream(len(found), dim, found.classes, self._chance, (phase,), distinct, make)


def _embeddings_file(path: str | None) -> str | None:
    suffixes = (".npz", ".npy", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
    if path is not None and not path.endswith(suffixes):
        raise ValueError(f"{path} is none of {', '.join(suffixes)}")
    return path


EmbeddingsPath = Annotated[
    str | None,
    AfterValidator(_embeddings_file),
    AfterValidator(lambda path, info: path if path is None else known(path, info)),
    Field(
        description="vectors of items, in place of hashed ones: .npz with `keys` [K] and `vectors` [K, d], .csv with a "
        "name and d numbers a row, or .npy [K, d] for items named 0 to K - 1",
    ),
]

Columns = Annotated[
    str | tuple[str, ...], Field(description="column, or columns, that tell which item a row is of: one item a key")
]


class TableConfig(FilesConfig, OwnConfig):
    """Options of streams whose tokens are the rows of a table."""

    files: ClassVar[tuple[str, ...]] = ("path", "embeddings")

    path_sha256: Sha256 = None
    path: str
    key: Columns
    value: str | None = Field(None, description="column with the value of a row; by default a hash of the key")
    order: str | None = Field(
        None, description="column by which rows are sorted: numbers, or dates and times; ties, and none, as they stand"
    )
    classes: Classes = None
    events: Events = None
    embeddings_sha256: Sha256 = None
    embeddings: EmbeddingsPath = None

    @model_validator(mode="after")
    def _fits_its_file(self) -> TableConfig:
        if self.embeddings is not None and self.dim is not None:
            raise ValueError("`dim` is for hashed keys: those of `embeddings` have a width of their own")
        if self.wanted.keys == ():
            raise ValueError("`key` names no column")
        if Path(self.path).is_file():
            try:
                self.table().check(self.wanted)
            except TableError as error:
                raise ValueError(str(error)) from error
        return self

    @property
    def wanted(self) -> Wanted:
        """The columns that are read."""
        return Wanted((self.key,) if isinstance(self.key, str) else self.key, self.value, self.order)

    @abstractmethod
    def table(self) -> Table:
        """The table in the file."""


T = TypeVar("T", bound=TableConfig)


class TableWorkload(OwnWorkload[T]):
    """Rows of a table. Those of a long one are numbered once, and kept in the data cache."""

    def read(self) -> tuple[Occurrences, Vectors]:
        config = self.config
        unchanged(config.path, config.path_sha256)
        marks: Marks = Hashed()
        vectors: Vectors = HashedVectors(config.dim or DEFAULT_DIM)
        if config.embeddings is not None:
            names, vectors = read_vectors(str(unchanged(config.embeddings, config.embeddings_sha256)))
            marks = Listed(names)
        classes = config.classes or (DEFAULT_CLASSES if config.value is None else None)
        made_of = config.identity()
        for field in ("path", "embeddings", "dim", "noise", "query_noise", "answer"):
            del made_of[field]
        kept = [made_of] if self.is_long(config) else None
        return occurrences(config.table(), config.wanted, Labels(classes), config.events, marks, kept), vectors

    @classmethod
    def tokens(cls, config: T) -> int:
        """By the file, as far as it is here."""
        try:
            rows = cls.rows(config)
        except TableError:
            return config.events or LONGEST_STREAM
        return min(rows, config.events or rows)

    @classmethod
    def width(cls, config: T) -> int:
        """By the file of vectors, as far as it is here."""
        try:
            return super().width(config) if config.embeddings is None else width_in(config.embeddings)
        except TableError:
            return DEFAULT_DIM

    @classmethod
    @abstractmethod
    def rows(cls, config: T) -> int:
        """Rows of the table, at most. Raises TableError where it is not here."""
