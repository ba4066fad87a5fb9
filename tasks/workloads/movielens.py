"""MovieLens: recall the genre of every movie rated so far, in the order in which people rated."""

from __future__ import annotations

import csv
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from models.stream import Ints
from tasks.catalogue import CORPORA
from tasks.corpora import corpus_files, open_text
from tasks.recording import RecordedConfig, RecordedWorkload, Recording, Windows, window_ends
from tasks.workload import workload

RATINGS = {"ml-latest-small": 100_836, "ml-100k": 100_000}
ML_100K_GENRES = 19
ML_100K_FIRST_GENRE = 5


class MovieLensConfig(RecordedConfig):
    """Ratings in time order, an item a movie, its class the first genre listed (arXiv 2607.09889, §3.1.3).

    In 25 windows they are the stream of §3.2.1.

    Data: Harper & Konstan 2015, doi:10.1145/2827872; fetched from files.grouplens.org if SLOTSWEEP_DATA lacks it.
    """

    name: Literal["movielens"] = "movielens"
    dataset: Literal["ml-latest-small", "ml-100k"] = Field(
        "ml-latest-small", description="which release: 100,836 ratings up to 2018, or 100,000 ratings of 1997-98"
    )
    events: int | None = Field(
        None, ge=1, description="tokens: the first so many ratings in time order, ties in file order; all by default"
    )
    windows: Windows = None

    @model_validator(mode="after")
    def _enough_ratings(self) -> MovieLensConfig:
        if self.events is not None and self.events > RATINGS[self.dataset]:
            raise ValueError(f"{self.dataset} has {RATINGS[self.dataset]:,} ratings; events asks for {self.events:,}")
        return self


@workload(MovieLensConfig)
class MovieLens(RecordedWorkload[MovieLensConfig]):
    """Recall the genre of the movies rated."""

    def read(self) -> Recording:
        read = {"ml-latest-small": read_ml_latest_small, "ml-100k": read_ml_100k}[self.config.dataset]
        movies, genres, times = (column[: self.config.events] for column in read())
        return Recording(movies, genres, window_ends(times, self.config.windows))

    @classmethod
    def corpora(cls, config: MovieLensConfig) -> tuple[str, ...]:
        return (config.dataset,)

    @classmethod
    def tokens(cls, config: MovieLensConfig) -> int:
        return config.events or RATINGS[config.dataset]


def read_ml_latest_small() -> tuple[Ints, Ints, Ints]:
    """Movie, genre and second of every rating in time order; genres, `(no genres listed)` included, by name."""
    files = corpus_files(CORPORA["ml-latest-small"])
    with open_text(files["movies.csv"]) as file:
        first_genre = {int(row["movieId"]): row["genres"].split("|")[0] for row in csv.DictReader(file)}
    number = {genre: index for index, genre in enumerate(sorted(set(first_genre.values())))}
    ratings = np.loadtxt(files["ratings.csv"], dtype=np.int64, delimiter=",", skiprows=1, usecols=(1, 3))
    return _in_time_order(ratings, {movie: number[genre] for movie, genre in first_genre.items()})


def read_ml_100k() -> tuple[Ints, Ints, Ints]:
    """Movie, genre and second of every rating in time order; a genre is the first flag of u.item that is set."""
    files = corpus_files(CORPORA["ml-100k"])
    first_genre = {}
    with open_text(files["u.item"], "latin-1") as file:
        for line in file:
            fields = line.rstrip().split("|")
            first_genre[int(fields[0])] = fields[ML_100K_FIRST_GENRE:].index("1")
    ratings = np.loadtxt(files["u.data"], dtype=np.int64, delimiter="\t", usecols=(1, 3))
    return _in_time_order(ratings, first_genre)


def _in_time_order(ratings: Ints, genre: dict[int, int]) -> tuple[Ints, Ints, Ints]:
    """`ratings` [N, (movie, time)] sorted by time, ties in file order: movies, the genre of each, times."""
    movies, times = ratings[np.argsort(ratings[:, 1], kind="stable")].T
    return movies, np.array([genre[movie] for movie in movies.tolist()]), times
