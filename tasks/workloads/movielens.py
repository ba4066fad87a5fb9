"""MovieLens: recall the genre of every movie rated so far, in the order in which people rated."""

from __future__ import annotations

import csv
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from models.stream import Ints, Phase, Stream
from tasks.catalogue import CORPORA
from tasks.corpora import corpus_files
from tasks.keys import Dim, Noise, QueryNoise, noisy, random_keys
from tasks.seeds import generator
from tasks.workload import Workload, WorkloadConfig, workload

RATINGS = {"ml-latest-small": 100_836, "ml-100k": 100_000}
ML_100K_GENRES = 19
ML_100K_FIRST_GENRE = 5


class MovieLensConfig(WorkloadConfig):
    """Ratings in time order, an item a movie, its class the first genre listed (arXiv 2607.09889, §3.1.3).

    Data: Harper & Konstan 2015, doi:10.1145/2827872; fetched from files.grouplens.org if SLOTSWEEP_DATA lacks it.
    """

    name: Literal["movielens"] = "movielens"
    dataset: Literal["ml-latest-small", "ml-100k"] = Field(
        "ml-latest-small", description="which release: 100,836 ratings up to 2018, or 100,000 ratings of 1997-98"
    )
    events: int | None = Field(
        None, ge=1, description="tokens: the first so many ratings in time order, ties in file order; all by default"
    )
    dim: Dim = 64
    noise: Noise = 0.3
    query_noise: QueryNoise = 0.0

    @model_validator(mode="after")
    def _enough_ratings(self) -> MovieLensConfig:
        if self.events is not None and self.events > RATINGS[self.dataset]:
            raise ValueError(f"{self.dataset} has {RATINGS[self.dataset]:,} ratings; events asks for {self.events:,}")
        return self


@workload(MovieLensConfig)
class MovieLens(Workload[MovieLensConfig]):
    """One phase at the end, which asks once for every distinct movie; all of them count for `recall`.

    A seed draws the movies' keys, nothing else. Chance is the probability that two of the distinct movies have the same
    genre: what a guess by the genre of a random stored movie earns.
    """

    default_episodes: ClassVar[int] = 1

    def __init__(self, config: MovieLensConfig) -> None:
        super().__init__(config)
        read = {"ml-latest-small": read_ml_latest_small, "ml-100k": read_ml_100k}[config.dataset]
        movies, genres = read()
        self._movies = movies[: config.events]
        self._genres = genres[: config.events]
        self._classes = int(genres.max()) + 1
        self._distinct, first, self._place = np.unique(self._movies, return_index=True, return_inverse=True)
        self._answers = self._genres[first]
        shares = np.bincount(self._answers) / len(self._answers)
        self._chance = float(shares @ shares)

    def stream(self, seed: int, episode: int) -> Stream:
        config = self.config
        rng = generator(seed, "stream", episode)
        base = random_keys(len(self._distinct), config.dim, rng)
        keys = noisy(base[self._place], config.noise, rng)
        queries = noisy(base, config.query_noise, generator(seed, "queries", episode))
        asked = np.arange(len(self._distinct))
        phase = Phase(len(keys), queries, self._answers, self._distinct, asked)
        return Stream(keys, self._genres, self._movies, (phase,), self._classes, self._chance)

    @classmethod
    def tokens(cls, config: MovieLensConfig) -> int:
        return config.events or RATINGS[config.dataset]


def read_ml_latest_small() -> tuple[Ints, Ints]:
    """Movie and genre of every rating in time order; genres, `(no genres listed)` included, are numbered by name."""
    files = corpus_files(CORPORA["ml-latest-small"])
    with files["movies.csv"].open(encoding="utf-8", newline="") as file:
        first_genre = {int(row["movieId"]): row["genres"].split("|")[0] for row in csv.DictReader(file)}
    number = {genre: index for index, genre in enumerate(sorted(set(first_genre.values())))}
    ratings = np.loadtxt(files["ratings.csv"], dtype=np.int64, delimiter=",", skiprows=1, usecols=(1, 3))
    return _in_time_order(ratings, {movie: number[genre] for movie, genre in first_genre.items()})


def read_ml_100k() -> tuple[Ints, Ints]:
    """Movie and genre of every rating in time order; a genre is the first of the 19 flags of u.item that is set."""
    files = corpus_files(CORPORA["ml-100k"])
    first_genre = {}
    for line in files["u.item"].read_text(encoding="latin-1").splitlines():
        fields = line.split("|")
        first_genre[int(fields[0])] = fields[ML_100K_FIRST_GENRE:].index("1")
    ratings = np.loadtxt(files["u.data"], dtype=np.int64, delimiter="\t", usecols=(1, 3))
    return _in_time_order(ratings, first_genre)


def _in_time_order(ratings: Ints, genre: dict[int, int]) -> tuple[Ints, Ints]:
    """`ratings` [N, (movie, time)] sorted by time, ties in file order, and the genre of each."""
    movies = ratings[np.argsort(ratings[:, 1], kind="stable"), 0]
    return movies, np.array([genre[movie] for movie in movies.tolist()])
